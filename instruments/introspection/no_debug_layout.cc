// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/introspection/root.h"

namespace tcmalloc {

constinit DebugLayout debug_layout = {};

}  // namespace tcmalloc
