// SPDX-License-Identifier: BSD-3-Clause
// AddressRange: the addresses [start, end). Plain data.
#pragma once

#include <cstdint>

namespace tcmalloc {

struct AddressRange {
  uintptr_t start = 0;
  uintptr_t end = 0;
};

}  // namespace tcmalloc
