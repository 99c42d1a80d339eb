// SPDX-License-Identifier: BSD-3-Clause
// RankedSpans: the spans of one size class that have both free objects and objects in use. Lists by
// the number of free objects, in powers of two: fine enough to distinguish a nearly full span from
// a nearly empty one, coarse enough that a span rarely changes lists. Split spans (without a whole
// line batch free) are in lists of their own. Thread safety: none; the owner's lock guards it.
// Cost: O(1).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "page_heap/span.h"

namespace tcmalloc {

class RankedSpans {
 public:
  static constexpr size_t kNumRanks = 15;
  static constexpr size_t kMaxFreeCount = (size_t{1} << (kNumRanks - 1)) - 1;

  // Which list a span is in.
  using Place = size_t;
  static constexpr Place kNowhere = 0;
  // Requires: 0 < free_count <= kMaxFreeCount.
  static Place PlaceFor(size_t free_count, bool split) {
    return static_cast<size_t>(std::bit_width(free_count)) + (split ? kNumRanks : 0);
  }

  void Move(Span* span, Place from, Place to) {
    if (from == to) return;
    if (from != kNowhere) {
      lists_[from].Remove(span);
      if (lists_[from].empty()) not_empty_ &= ~(uint32_t{1} << from);
    }
    if (to != kNowhere) {
      lists_[to].Prepend(span);
      not_empty_ |= uint32_t{1} << to;
    }
  }

  // A span of the lowest rank that has one; null when there is none.
  Span* FullestNotSplit() const { return FirstOf(not_empty_ & kNotSplit); }
  Span* FullestSplit() const { return FirstOf(not_empty_ & ~kNotSplit); }

  // Calls f(span, place) for every span.
  template <typename F>
  void ForEach(F f) const {
    for (Place place = 0; place < lists_.size(); ++place) {
      for (Span* span = lists_[place].first(); span != nullptr; span = lists_[place].Next(span)) {
        f(span, place);
      }
    }
  }

 private:
  static constexpr uint32_t kNotSplit = (uint32_t{1} << kNumRanks) - 1;

  Span* FirstOf(uint32_t lists) const {
    return lists == 0 ? nullptr : lists_[static_cast<size_t>(std::countr_zero(lists))].first();
  }

  // Bit i: lists_[i] has a span.
  uint32_t not_empty_ = 0;
  std::array<IntrusiveList<Span>, 2 * kNumRanks> lists_;
};

}  // namespace tcmalloc
