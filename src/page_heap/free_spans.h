// SPDX-License-Identifier: BSD-3-Clause
// FreeSpans: the free spans of one state, by length: a list for each length up to kMaxExactPages,
// an ordered tree for longer ones. Search is best fit. Among spans of equal length it finds the
// most recently freed one if they are short, and the one at the lowest address if they are long.
//
// Thread safety: none; the page heap's lock guards it. Cost: O(1) for short spans (a bitmap shows
// which lists are not empty), O(log n) for long ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/counters.h"
#include "base/intrusive_list.h"
#include "base/ordered_tree.h"
#include "page_heap/span.h"

namespace tcmalloc {

class FreeSpans {
 public:
  // Longer spans are in the tree.
  static constexpr size_t kMaxExactPages = 128;

  void Insert(Span* span) {
    const size_t pages = span->num_pages.pages();
    if (pages <= kMaxExactPages) {
      exact_[pages - 1].Prepend(span);
      ++exact_counts_[pages - 1];
      SetBit(non_empty_.data(), pages - 1);
    } else {
      long_.Insert(span);
    }
    total_.Add(span->num_pages.pages());
    ++count_;
  }

  void Remove(Span* span) {
    const size_t pages = span->num_pages.pages();
    if (pages <= kMaxExactPages) {
      exact_[pages - 1].Remove(span);
      --exact_counts_[pages - 1];
      if (exact_[pages - 1].empty()) ClearBit(non_empty_.data(), pages - 1);
    } else {
      long_.Remove(span);
    }
    total_.Subtract(span->num_pages.pages());
    --count_;
  }

  // The shortest span of at least `n` pages, or null. It stays listed.
  Span* FindBestFit(Length n) const {
    const size_t at = FindSetBit(non_empty_.data(), n.pages() - 1, kMaxExactPages);
    if (at < kMaxExactPages) return exact_[at].first();
    return long_.FirstWhere([n](const Span& span) { return span.num_pages >= n; });
  }

  // The longest span for which `ok` holds, among the `most` longest ones above kMaxExactPages and
  // the most recently freed one of each shorter length; or null.
  template <typename Predicate>
  Span* FindLongestWhere(Predicate ok, size_t most) const {
    Span* span = long_.Last();
    for (; span != nullptr && most > 0; span = OrderedTree<Span>::Previous(span), --most) {
      if (ok(*span)) return span;
    }
    for (size_t pages = kMaxExactPages; pages > 0; --pages) {
      span = exact_[pages - 1].first();
      if (span != nullptr && ok(*span)) return span;
    }
    return nullptr;
  }

  // The best by `better(a, b)` among the first `most` spans that are as long as `span`.
  template <typename Better>
  Span* BestOfEqual(Span* span, size_t most, Better better) const {
    if (span == nullptr || span->num_pages.pages() > kMaxExactPages) return span;
    Span* best = span;
    for (; span != nullptr && most > 0; span = IntrusiveList<Span>::Next(span), --most) {
      if (better(*span, *best)) best = span;
    }
    return best;
  }

  // The longest span, or null.
  Span* FindLongest() const {
    return FindLongestWhere([](const Span&) { return true; }, 1);
  }

  // The number of spans of exactly `n` pages (n <= kMaxExactPages).
  size_t CountExact(Length n) const { return exact_counts_[n.pages() - 1]; }

  // May be read without the lock, racily.
  Length total() const { return Length(total_.value()); }
  size_t count() const { return count_; }

 private:
  friend struct FieldTable;

  std::array<IntrusiveList<Span>, kMaxExactPages> exact_;
  std::array<uint32_t, kMaxExactPages> exact_counts_{};
  std::array<uint64_t, WordsForBits(kMaxExactPages)> non_empty_{};
  OrderedTree<Span> long_;
  OwnedCounter total_;
  size_t count_ = 0;
};

}  // namespace tcmalloc
