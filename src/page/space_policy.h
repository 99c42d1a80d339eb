// SPDX-License-Identifier: BSD-3-Clause
// When a large object saves address space rather than page faults. A pure function.
//
// It can go where memory is backed, or where there is the least free memory around it, backed or
// not. The first saves page faults. The second saves address space: objects that cut up long backed
// runs, while released ones of the right length stay unused, make the heap grow. Address space is
// cheap (records, and 9 bytes of the page map for each page), so it is saved only where the heap
// has come to have more of it than was ever in use at once, and some to spare.
//
// Saving it everywhere took 1.4 times the page faults where 16 buffers of 64 KiB to 4 MiB are
// replaced all the time, and 1.8 times where vectors grow; saving it nowhere took up to 1.5 times
// the address space of a coalescing best fit. (docs/decisions/0030)
#pragma once

#include <cstddef>

#include "base/units.h"

namespace tcmalloc {

// One growth of the greatest length: what the heap may have come to have for the sake of fewer
// mappings. With 128 MiB, heaps of 500 MiB take more than 1.25 times what best fit takes.
inline constexpr Length kSpareSpace = Length((size_t{64} << 20) >> kPageShift);

// `system`: pages that came from the system; `most_in_use`: that were ever in use at once.
constexpr bool SavesSpace(Length system, Length most_in_use, Length spare) {
  return system > most_in_use + Length(most_in_use.pages() / 16) + spare;
}

}  // namespace tcmalloc
