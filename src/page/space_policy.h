// SPDX-License-Identifier: BSD-3-Clause
// When a large object saves address space rather than page faults. A pure function.
//
// It can go where memory is backed, or where there is the least free memory around it, backed or
// not. The first saves page faults. The second saves address space: objects that cut up long backed
// runs, while released ones of the right length stay unused, make the heap grow. Address space is
// cheap (records, and 9 bytes of the page map for each page), so it is saved only where the heap
// has come to have more of it than was ever in use at once, and some to spare. How much, and what
// was measured: Tuning::Placement.
#pragma once

#include <cstddef>

#include "base/tuning.h"
#include "base/units.h"

namespace tcmalloc {

// `system`: pages that came from the system; `most_in_use`: that were ever in use at once.
constexpr bool SavesSpace(Length system, Length most_in_use, Length spare) {
  return system >
         most_in_use + Length(most_in_use.pages() / kTuning.placement.spare_space_part) + spare;
}

}  // namespace tcmalloc
