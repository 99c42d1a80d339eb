// SPDX-License-Identifier: BSD-3-Clause
// Sizes that tests name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace tcmalloc {

inline constexpr size_t kMiB = size_t{1} << 20;
// The smallest page that processors have.
inline constexpr size_t kHardwarePage = 4096;
// More pages than any heap has.
inline constexpr Length kAllPages = Length(SIZE_MAX >> kPageShift);

constexpr Length MiB(size_t n) { return Length(n * (kMiB >> kPageShift)); }

}  // namespace tcmalloc
