// SPDX-License-Identifier: BSD-3-Clause
// A range of addresses, and the parts of a range that are outside other ranges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// AddressRange: the addresses [start, end). Plain data.
struct AddressRange {
  uintptr_t start = 0;
  uintptr_t end = 0;
};

// Calls f(start, end) for the parts of [start, end) outside the `n` ranges, which are sorted and do
// not overlap.
template <typename F>
void ForEachOutside(uintptr_t start, uintptr_t end, const AddressRange* ranges, size_t n, F f) {
  const AddressRange* const last = ranges + n;
  const AddressRange* next =
      std::upper_bound(ranges, last, start,
                       [](uintptr_t address, const AddressRange& r) { return address < r.end; });
  while (start < end) {
    const uintptr_t stop = next == last ? end : std::min(end, next->start);
    if (start < stop) f(start, stop);
    if (stop == end) return;
    start = next->end;
    ++next;
  }
}

}  // namespace tcmalloc
