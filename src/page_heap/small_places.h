// SPDX-License-Identifier: BSD-3-Clause
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
// Cost. Mark: a step for each hugepage. Find: at most Tuning::Trim::searched_at_once steps, each
// for one hugepage or for the bits of some leaves, then it returns, so that the lock is free
// meanwhile. A walk over all marks takes a step for each of their hugepages, for the others in
// their leaves, and for each marked leaf: free memory and large objects elsewhere cost none.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/tuning.h"
#include "base/units.h"
#include "page_heap/hugepage.h"
#include "page_heap/page_map.h"

namespace tcmalloc {

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

  // Sets `part` to the first marked pages from part->first on: to adjacent hugepages, or their
  // part. Where the search is not over within its steps, `part` is empty, and part->first is where
  // to go on. False when there are no more.
  bool Find(PageRange* part) const {
    size_t steps = kTuning.trim.searched_at_once;
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
  friend struct FieldTable;

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
