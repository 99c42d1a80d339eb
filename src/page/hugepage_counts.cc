// SPDX-License-Identifier: BSD-3-Clause
#include "page/hugepage_counts.h"

#include "base/check.h"

namespace tcmalloc {

// Calls f(hugepage, pages of the range in it).
template <typename F>
void HugepageCounts::ForEach(PageRange range, F f) const {
  while (range.first < range.end) {
    const PageId next = HugepageEnd(range.first) < range.end ? HugepageEnd(range.first) : range.end;
    f(Of(range.first), static_cast<uint16_t>((next - range.first).pages()));
    range.first = next;
  }
}

void HugepageCounts::CountUsed(PageRange range, bool used) {
  ForEach(range, [used](Hugepage& hugepage, uint16_t pages) {
    hugepage.used = static_cast<uint16_t>(hugepage.used + (used ? pages : -pages));
    TC_ASSERT(hugepage.used <= kHugepagePages.pages());
    if (hugepage.used == 0) hugepage.holes = false;
  });
}

void HugepageCounts::CountReleased(PageRange range, bool released) {
  ForEach(range, [released](Hugepage& hugepage, uint16_t pages) {
    hugepage.released = static_cast<uint16_t>(hugepage.released + (released ? pages : -pages));
    TC_ASSERT(hugepage.released <= kHugepagePages.pages());
  });
}

void HugepageCounts::MarkAdvised(PageRange range, bool advised) {
  ForEach(range, [&](Hugepage& hugepage, uint16_t) {
    if (hugepage.advised == advised) return;
    hugepage.advised = advised;
    advised ? ++advised_ : --advised_;
  });
}

bool HugepageCounts::AreAdvised(PageRange range, bool advised) const {
  bool all = true;
  ForEach(range, [&](const Hugepage& hugepage, uint16_t) { all &= hugepage.advised == advised; });
  return all;
}

bool HugepageCounts::AreSplit(PageRange range) const {
  bool any = false;
  ForEach(range, [&any](const Hugepage& hugepage, uint16_t) {
    any |=
        hugepage.holes || (hugepage.released != 0 && hugepage.released != kHugepagePages.pages());
  });
  return any;
}

PageRange HugepageCounts::BackedWith(const Span& span, PageId page, Length step) const {
  const Hugepage& hugepage = Of(page);
  // By P2 all of it is in this span.
  if (hugepage.BackedAtOnce()) return {HugepageStart(page), HugepageEnd(page)};
  if (!hugepage.advised && step > Length(0)) {
    const PageId start(page.index() & ~(step.pages() - 1));
    if (start >= span.first_page && start + step <= span.end()) return {start, start + step};
  }
  return {page, page + Length(1)};
}

}  // namespace tcmalloc
