// SPDX-License-Identifier: BSD-3-Clause
// Searches among leaked objects, with the scanner of MarkerOf. FindReachedFar finds those that are
// reachable if pointers count everywhere in an object. FindIndirect finds those that are reachable
// from other leaked objects.
//
// Thread safety: none, as all of MarkerOf. Cost: FindReachedFar scans each leaked object at most
// once, and conditional ranges that were not reached before; FindIndirect scans each leaked object
// at most twice. A bitmap of all objects for the one, two for the other.
#pragma once

#include <algorithm>
#include <bit>

#include "formats/marker/marker.h"

namespace tcmalloc {

template <typename Geometry, typename Memory>
bool MarkerOf<Geometry, Memory>::FindReachedFar() {
  const size_t words = WordsForBits(index_.num_numbers());
  far_.unreached = scratch_.AllocateArray<uint64_t>(words);
  if (far_.unreached == nullptr) return false;
  std::copy_n(unmarked_, words, far_.unreached);
  const Counts counts = counts_;
  to_find_ = far_.unreached;
  far_.max_offset = kAnyOffset;
  for (size_t w = 0; w < words; ++w) {
    while (const uint64_t rest = far_.pointed_to[w] & far_.unreached[w]) {
      const size_t number = w * kBitsPerWord + static_cast<size_t>(std::countr_zero(rest));
      ClearBit(far_.unreached, number);
      ring_.Push(ItemWithNumber(number));
      Drain();
    }
  }
  DrainReached();
  far_.max_offset = options_.max_pointer_offset;
  to_find_ = unmarked_;
  counts_ = counts;
  return !conditional_.lacked_memory();
}

template <typename Geometry, typename Memory>
bool MarkerOf<Geometry, Memory>::FindIndirect() {
  const size_t numbers = index_.num_numbers();
  const size_t words = WordsForBits(numbers);
  direct_ = scratch_.AllocateArray<uint64_t>(words);
  uint64_t* const not_found = scratch_.AllocateArray<uint64_t>(words);
  if (direct_ == nullptr || not_found == nullptr) return false;
  const Counts counts = counts_;
  conditional_.Suspend();
  to_find_ = not_found;
  const auto find_from = [&](size_t number) {
    ClearBit(not_found, number);
    ring_.Push(ItemWithNumber(number));
    Drain();
  };
  // Pass 1, in ascending order, chooses each object that is not reachable from one chosen earlier.
  // Then all objects are reachable from the chosen ones. Pass 2, in descending order, keeps the
  // chosen objects that are not reachable from one kept earlier. Then all objects are still
  // reachable from the kept ones, and no kept object is reachable from another.
  std::copy_n(unmarked_, words, not_found);
  for (size_t number = 0;; ++number) {
    number = FindSetBit(not_found, number, numbers);
    if (number == numbers) break;
    SetBit(direct_, number);
    find_from(number);
  }
  std::copy_n(unmarked_, words, not_found);
  for (size_t w = words; w-- > 0;) {
    for (uint64_t rest = direct_[w]; rest != 0;) {
      const size_t bit = kBitsPerWord - 1 - static_cast<size_t>(std::countl_zero(rest));
      rest ^= uint64_t{1} << bit;
      const size_t number = w * kBitsPerWord + bit;
      if (TestBit(not_found, number)) {
        find_from(number);
      } else {
        ClearBit(direct_, number);
      }
    }
  }
  conditional_.Resume();
  counts_ = counts;
  to_find_ = unmarked_;
  return true;
}

}  // namespace tcmalloc
