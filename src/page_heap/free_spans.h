// SPDX-License-Identifier: BSD-3-Clause
// FreeSpans, the free spans of one state, by length, and FreeRuns, runs of adjacent free spans.
//
// FreeSpans has a list for each length up to kMaxExactPages, and
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
#include "base/compiler.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/intrusive.h"
#include "base/units.h"
#include "page_heap/page_map.h"
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
  std::array<IntrusiveList<Span>, kMaxExactPages> exact_;
  std::array<uint32_t, kMaxExactPages> exact_counts_{};
  std::array<uint64_t, WordsForBits(kMaxExactPages)> non_empty_{};
  OrderedTree<Span> long_;
  OwnedCounter total_;
  size_t count_ = 0;
};

// Finds runs of adjacent free spans by length. A run is as long as possible. It has two
// spans or more, backed and released ones in turn (P2 of page_heap/span_store.h); a free span
// without a free neighbour is in no run. A run has no record of its own: its first span is in a
// tree by address, its last one in a tree by length, and both have its length.
//
// Invariants
//   F1  in_run is true of exactly the free spans that have a free neighbour.
//   F2  run_pages of the first and of the last span of a run is the length of the run; the first is
//       in by_address_, the last in by_length_, and nothing else is.
//
// Thread safety: none; the page heap's lock guards it. Cost: nothing for a span without a free
// neighbour; else a few operations of O(log n) on the trees, n being the number of runs.
class FreeRuns {
 public:
  struct Run {
    Span* first = nullptr;
    Span* last = nullptr;

    Length length() const { return first->run_pages; }
    PageId end() const { return first->first_page + length(); }
  };

  // The page map leads to the neighbours of a span: M2 and S1.
  explicit FreeRuns(const PageMap& page_map) : page_map_(page_map) {}

  // `span` has become free. `before` and `after` are the free spans that it is adjacent to, null
  // for none.
  void Join(Span* span, Span* before, Span* after) {
    TC_ASSERT(!span->in_run);
    if (before != nullptr || after != nullptr) JoinRuns(span, before, after);
  }

  // `span` is about to be no longer free, or to become a part of another one.
  void Leave(Span* span) {
    if (span->in_run) LeaveRun(span);
  }

  // The shortest run of at least `n` pages; without spans when there is none.
  Run FindBestFit(Length n) const {
    Span* const last = by_length_.FirstWhere([n](const Span& span) { return span.run_pages >= n; });
    if (last == nullptr) return {};
    return {page_map_.SpanOf(last->end() - last->run_pages), last};
  }

  // The run that `span` is in. Requires: it is in one.
  Run RunOf(const Span* span) const {
    TC_ASSERT(span->in_run);
    const PageId page = span->first_page;
    Span* const first =
        by_address_.FirstWhere([page](const Span& other) { return other.first_page <= page; });
    TC_ASSERT(first != nullptr && first->first_page + first->run_pages > page);
    return {first, page_map_.SpanOf(first->first_page + first->run_pages - Length(1))};
  }

  // The number of runs.
  size_t count() const { return by_length_.size(); }
  // `run` is listed (F2).
  bool Contains(const Run& run) const {
    return by_address_.Contains(run.first) && by_length_.Contains(run.last) &&
           run.first->run_pages == run.last->run_pages;
  }

 private:
  // No span is in both trees, so they share the links. A priority has no room in the span: it is
  // computed from the address.
  struct Links {
    static TreeLinks<Span>& LinksOf(Span* span) { return span->run_node; }
    static const TreeLinks<Span>& LinksOf(const Span* span) { return span->run_node; }
    static void SetPriority(Span*, uint32_t) {}
    // Multiplications and shifts: each bit of the result depends on each bit of the address.
    static uint32_t PriorityOf(const Span* span) {
      uint64_t bits = reinterpret_cast<uintptr_t>(span);
      bits = (bits ^ bits >> 33) * 0xff51afd7ed558ccd;
      bits = (bits ^ bits >> 33) * 0xc4ceb9fe1a85ec53;
      return static_cast<uint32_t>(bits >> 32);
    }
  };
  // In descending order, so that FirstWhere finds the nearest one at or below an address.
  struct ByAddress : Links {
    static bool Before(const Span& a, const Span& b) { return a.first_page > b.first_page; }
  };
  struct ByLength : Links {
    static bool Before(const Span& a, const Span& b) {
      if (a.run_pages != b.run_pages) return a.run_pages < b.run_pages;
      return a.first_page < b.first_page;
    }
  };

  // Out of line: small programs have no runs, and code that they never run must not lie between
  // code that they run.
  TC_SLOW_PATH void JoinRuns(Span* span, Span* before, Span* after) {
    Run run = {span, span};
    if (before != nullptr) run.first = TakeOut(before).first;
    if (after != nullptr) run.last = TakeOut(after).last;
    span->in_run = true;
    Add(run);
  }

  TC_SLOW_PATH void LeaveRun(Span* span) {
    const Run run = TakeOut(span);
    span->in_run = false;
    const PageId after = span->end();
    if (span != run.first) Add({run.first, page_map_.SpanOf(span->first_page - Length(1))});
    if (span != run.last) Add({page_map_.SpanOf(after), run.last});
  }

  // Lists a run; a span alone is in none.
  void Add(const Run& run) {
    TC_ASSERT(run.first != nullptr && run.last != nullptr);
    if (run.first == run.last) {
      run.first->in_run = false;
      return;
    }
    run.first->run_pages = run.last->run_pages = run.last->end() - run.first->first_page;
    by_address_.Insert(run.first);
    by_length_.Insert(run.last);
  }

  // The run that `span` is in, or the span alone, which is to become a part of another run.
  Run TakeOut(Span* span) {
    if (!span->in_run) {
      span->in_run = true;
      return {span, span};
    }
    const Run run = RunOf(span);
    by_address_.Remove(run.first);
    by_length_.Remove(run.last);
    return run;
  }

  const PageMap& page_map_;
  OrderedTree<Span, ByAddress> by_address_;
  OrderedTree<Span, ByLength> by_length_;
};

}  // namespace tcmalloc
