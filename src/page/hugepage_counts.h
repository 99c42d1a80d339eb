// SPDX-License-Identifier: BSD-3-Clause
// HugepageCounts: keeps up to date what the page map knows of each hugepage (page/hugepage.h).
//
// Thread safety: none; the page heap's lock guards it. Cost: a step per hugepage of the range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "page/hugepage.h"
#include "page/page_map.h"
#include "page/span.h"

namespace tcmalloc {

class HugepageCounts {
 public:
  explicit HugepageCounts(PageMap& page_map) : page_map_(page_map) {}

  Hugepage& Of(PageId page) const { return page_map_.HugepageOf(page); }

  // The pages came into use, or are no longer in use.
  void CountUsed(PageRange range, bool used);
  // The pages became released free pages, or are none any more.
  void CountReleased(PageRange range, bool released);
  // The OS was asked for hugepages, or for none.
  void MarkAdvised(PageRange range, bool advised);
  // The number of hugepages that the OS was asked for.
  size_t advised() const { return advised_; }

  // The OS was asked for hugepages in all of the range, or in none of it.
  bool AreAdvised(PageRange range, bool advised) const;
  bool AreAdvised(const Span& span) const {
    return Of(span.first_page).advised && Of(span.last_page()).advised;
  }
  // Some hugepage of the range is released in part, or a span in use in it has free pages that are.
  bool AreSplit(PageRange range) const;
  // To release `range` splits the hugepage that `page` is in.
  bool WouldSplit(PageRange range, PageId page) const {
    return Of(page).advised && (range.first > HugepageStart(page) || range.end < HugepageEnd(page));
  }
  // What is backed with a page of the released `span`: all of its hugepage; else, with a `step`,
  // the block of `step` pages.
  PageRange BackedWith(const Span& span, PageId page, Length step) const;

 private:
  template <typename F>
  void ForEach(PageRange range, F f) const;

  PageMap& page_map_;
  size_t advised_ = 0;
};

}  // namespace tcmalloc
