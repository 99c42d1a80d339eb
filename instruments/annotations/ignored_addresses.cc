// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/annotations/ignored_addresses.h"

namespace tcmalloc {

constinit IgnoredAddresses process_ignored_addresses;

}  // namespace tcmalloc
