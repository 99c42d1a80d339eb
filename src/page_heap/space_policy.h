// SPDX-License-Identifier: BSD-3-Clause
// When to place a large object so that it saves address space rather than page faults. A pure
// function.
//
// A large object can be placed where memory is backed, or in the tightest fit, backed or not. The
// first saves page faults. The second saves address space: the heap grows if objects cut up long
// backed runs while released runs of the right length stay unused. Address space is cheap (records,
// and 9 bytes of the page map for each page), so it is saved only when the heap has much more of it
// than was ever in use at once. How much more, and what was measured: Tuning::Placement.
#pragma once

#include <cstddef>

#include "base/tuning.h"
#include "base/units.h"

namespace tcmalloc {

// `system`: pages from the OS; `most_in_use`: the most that were ever in use at once; `spare`: see
// Tuning::Placement::spare_space.
constexpr bool SavesSpace(Length system, Length most_in_use, Length spare) {
  return system >
         most_in_use + Length(most_in_use.pages() / kTuning.placement.spare_space_part) + spare;
}

}  // namespace tcmalloc
