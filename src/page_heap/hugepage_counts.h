// SPDX-License-Identifier: BSD-3-Clause
// What the page heap records of each hugepage in the page map: HugepageCounts counts pages,
// SmallPlaces marks where spans of small objects are.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/config.h"
#include "base/units.h"
#include "page_heap/hugepage.h"
#include "page_heap/page_map.h"
#include "page_heap/span.h"

namespace tcmalloc {

// HugepageCounts: updates the record of each hugepage in the page map (page_heap/hugepage.h).
//
// Thread safety: none; the page heap's lock guards it. Cost: a step per hugepage of the range.
class HugepageCounts {
 public:
  explicit HugepageCounts(PageMap& page_map) : page_map_(page_map) {}

  Hugepage& Of(PageId page) const { return page_map_.HugepageOf(page); }

  // The pages came into use, or are no longer in use.
  void CountUsed(PageRange range, bool used) {
    ForEach(range, [used](Hugepage& hugepage, uint16_t pages) {
      hugepage.used = static_cast<uint16_t>(hugepage.used + (used ? pages : -pages));
      TC_ASSERT(hugepage.used <= kHugepagePages.pages());
      if (hugepage.used == 0) hugepage.holes = hugepage.small = false;
    });
  }
  // The pages became released free pages, or no longer are.
  void CountReleased(PageRange range, bool released) {
    ForEach(range, [released](Hugepage& hugepage, uint16_t pages) {
      hugepage.released = static_cast<uint16_t>(hugepage.released + (released ? pages : -pages));
      TC_ASSERT(hugepage.released <= kHugepagePages.pages());
    });
  }
  // The OS was asked for hugepages, or advised against them.
  void MarkAdvised(PageRange range, bool advised) {
    ForEach(range, [&](Hugepage& hugepage, uint16_t) {
      if (hugepage.advised == advised) return;
      hugepage.advised = advised;
      advised ? ++advised_ : --advised_;
    });
  }
  // The number of hugepages that the OS was asked for.
  size_t advised() const { return advised_; }

  // The OS was asked for hugepages in all of the range; with `advised` false, nowhere in it.
  bool AreAdvised(PageRange range, bool advised) const {
    bool all = true;
    ForEach(range, [&](const Hugepage& hugepage, uint16_t) { all &= hugepage.advised == advised; });
    return all;
  }
  bool AreAdvised(const Span& span) const {
    return Of(span.first_page).advised && Of(span.last_page()).advised;
  }
  // Some hugepage of the range is released in part, or free pages inside its used spans are.
  bool AreSplit(PageRange range) const {
    bool any = false;
    ForEach(range, [&any](const Hugepage& hugepage, uint16_t) {
      any |=
          hugepage.holes || (hugepage.released != 0 && hugepage.released != kHugepagePages.pages());
    });
    return any;
  }
  // Releasing `range` would split the hugepage that `page` is in.
  bool WouldSplit(PageRange range, PageId page) const {
    return Of(page).advised && (range.first > HugepageStart(page) || range.end < HugepageEnd(page));
  }
  // The pages that become backed together with the released `page`: all of its hugepage, where the
  // OS backs it at once, else the page.
  PageRange BackedWith(PageId page) const {
    // By P2 all of such a hugepage is in one free span.
    if (Of(page).BackedAtOnce()) return {HugepageStart(page), HugepageEnd(page)};
    return {page, page + Length(1)};
  }

 private:
  // Calls f(hugepage, pages of the range in it).
  template <typename F>
  void ForEach(PageRange range, F f) const {
    while (range.first < range.end) {
      const PageId next =
          HugepageEnd(range.first) < range.end ? HugepageEnd(range.first) : range.end;
      f(Of(range.first), static_cast<uint16_t>((next - range.first).pages()));
      range.first = next;
    }
  }

  PageMap& page_map_;
  size_t advised_ = 0;
};

// The most hugepages, or leaves of the page map, that are searched under one hold of the lock,
// which takes some microseconds.
inline constexpr size_t kSearchedAtOnce = 1024;

// SmallPlaces: where spans of small objects are, so that a walk over them skips the rest of the
// heap: large objects, free memory, address space of others. A sparse heap has terabytes of these.
//
// Role. Two levels. Hugepage::small says that a span of small objects was in a hugepage since the
// last time that nothing in it was in use. A bit for each leaf of the page map (4 GiB) says that
// some hugepage in it was ever marked; leaves whose numbers agree in the lower bits share one.
//
// Invariants
//   W1  Each hugepage with a page of a span of state kSmall is marked, and so is its leaf.
//
// Synchronization. The page heap's lock guards it. A mark is set under the hold that makes the span
// kSmall, before any of its objects is handed out, and cleared under one that frees the last pages
// in use, which are then no span's. So by W1 a walk that takes the lock anew for each part of the
// heap still finds every span that existed when it began and exists when it gets there: such a
// span does not move. A walk may miss spans that are made, and find marks of spans that are gone.
//
// Cost. Mark: a step for each hugepage. Find: at most kSearchedAtOnce steps, each for one hugepage
// or for the bits of some leaves, then it returns, so that the lock is free meanwhile. A walk over
// all marks takes a step for each leaf with a mark, and for each hugepage in it, marked or not.
// Free memory and large objects in other leaves cost nothing.
class SmallPlaces {
 public:
  explicit SmallPlaces(PageMap& page_map) : page_map_(page_map) {}

  // The pages became a span of small objects.
  void Mark(PageRange range) {
    for (PageId page = range.first; page < range.end; page = HugepageEnd(page)) {
      page_map_.HugepageOf(page).small = true;
      const size_t leaf = LeafOf(page);
      SetBit(leaves_.data(), leaf % kBits);
      end_leaf_ = std::max(end_leaf_, leaf + 1);
    }
  }
  bool IsMarked(PageId page) const {
    return TestBit(leaves_.data(), LeafOf(page) % kBits) && LeafOf(page) < end_leaf_ &&
           page_map_.HugepageOf(page).small;
  }

  // Sets `part` to the first marked pages from part->first on: to adjacent hugepages, or a part
  // of them. If the search did not end within its steps, `part` is empty, and the next call
  // continues at part->first. Returns false when there are no more.
  bool Find(PageRange* part) const {
    size_t steps = kSearchedAtOnce;
    PageId page = part->first;
    for (; steps > 0; --steps) {
      const size_t leaf = LeafOf(page);
      if (leaf >= end_leaf_) return false;
      if (!TestBit(leaves_.data(), leaf % kBits) || !page_map_.HasLeaf(page)) {
        page = PageId(NextMarkedLeaf(leaf) << PageMap::kLeafBits);
      } else if (page_map_.HugepageOf(page).small) {
        break;
      } else {
        page = HugepageEnd(page);
      }
    }
    part->first = part->end = page;
    for (; steps > 0 && IsMarkedHere(*part); --steps) part->end = HugepageEnd(part->end);
    return true;
  }

 private:
  static constexpr size_t kBits = std::min<size_t>(PageMap::kRootEntries, 4096);

  static size_t LeafOf(PageId page) { return page.index() >> PageMap::kLeafBits; }
  // The first leaf after `leaf` whose bit is set; or the end of its kBits leaves.
  size_t NextMarkedLeaf(size_t leaf) const {
    const size_t base = leaf / kBits * kBits;
    return base + FindSetBit(leaves_.data(), leaf % kBits + 1, kBits);
  }
  // The hugepage at the end of `part` is marked and in the leaf of its beginning.
  bool IsMarkedHere(const PageRange& part) const {
    return LeafOf(part.end) == LeafOf(part.first) && page_map_.HugepageOf(part.end).small;
  }

  PageMap& page_map_;
  std::array<uint64_t, WordsForBits(kBits)> leaves_{};
  size_t end_leaf_ = 0;  // after the last marked one
};

}  // namespace tcmalloc
