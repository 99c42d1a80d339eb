// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/introspection/root.h"

namespace tcmalloc {

constinit SampleLayout sample_layout = {};

}  // namespace tcmalloc
