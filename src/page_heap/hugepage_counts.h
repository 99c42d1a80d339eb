// SPDX-License-Identifier: BSD-3-Clause
// HugepageCounts: updates the record of each hugepage in the page map (page_heap/hugepage.h).
//
// Thread safety: none; the page heap's lock guards it. Cost: a step per hugepage of the range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/units.h"
#include "page_heap/hugepage.h"
#include "page_heap/page_map.h"
#include "page_heap/span.h"

namespace tcmalloc {

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
  friend struct FieldTable;

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

}  // namespace tcmalloc
