// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: where memory comes by the hugepage, and what is known of each.
#include "base/tuning.h"
#include "page/page_heap.h"

namespace tcmalloc {

void PageHeap::SetHugepages(const HugepageSetting& setting) {
  const SpinLockHolder holder(lock_);
  hugepages_ = setting;
}

void PageHeap::SetHugepagesAfterFirstGrowth(const HugepageSetting& setting) {
  const SpinLockHolder holder(lock_);
  later_hugepages_ = setting;
}

template <typename F>
void PageHeap::ForEachHugepageLocked(PageId first, Length n, F f) {
  const PageId end = first + n;
  while (first < end) {
    const PageId next = HugepageEnd(first) < end ? HugepageEnd(first) : end;
    f(page_map_.HugepageOf(first), static_cast<uint16_t>((next - first).pages()));
    first = next;
  }
}

void PageHeap::CountUsedLocked(PageId first, Length n, bool used) {
  ForEachHugepageLocked(first, n, [used](Hugepage& hugepage, uint16_t pages) {
    hugepage.used = static_cast<uint16_t>(hugepage.used + (used ? pages : -pages));
    TC_ASSERT(hugepage.used <= kHugepagePages.pages());
    if (hugepage.used == 0) hugepage.holes = false;
  });
}

void PageHeap::CountReleasedLocked(PageId first, Length n, bool released) {
  ForEachHugepageLocked(first, n, [released](Hugepage& hugepage, uint16_t pages) {
    hugepage.released = static_cast<uint16_t>(hugepage.released + (released ? pages : -pages));
    TC_ASSERT(hugepage.released <= kHugepagePages.pages());
  });
}

void PageHeap::MarkAdvisedLocked(PageId first, Length n, bool advised) {
  ForEachHugepageLocked(first, n, [&](Hugepage& hugepage, uint16_t) TC_NO_THREAD_SAFETY_ANALYSIS {
    if (hugepage.advised == advised) return;
    hugepage.advised = advised;
    advised ? hugepages_advised_.Add(1) : hugepages_advised_.Subtract(1);
  });
}

bool PageHeap::IsAdvisedAllOverLocked(PageId first, Length n, bool advised) {
  bool all = true;
  ForEachHugepageLocked(first, n, [&all, advised](const Hugepage& hugepage, uint16_t) {
    all &= hugepage.advised == advised;
  });
  return all;
}

PageHeap::PageRange PageHeap::BackedWithLocked(const Span& span, PageId page, Length step) {
  const Hugepage& hugepage = page_map_.HugepageOf(page);
  // By P2 all of it is in this span.
  if (hugepage.BackedAtOnce()) return {HugepageStart(page), HugepageEnd(page)};
  if (!hugepage.advised && step > Length(0)) {
    const PageId start(page.index() & ~(step.pages() - 1));
    if (start >= span.first_page && start + step <= span.first_page + span.num_pages) {
      return {start, start + step};
    }
  }
  return {page, page + Length(1)};
}

Span* PageHeap::CarveLocked(Span* span, PageId first, Length n, Length step, PageRange* backed) {
  const SpanState state = span->state.load(std::memory_order_relaxed);
  *backed = {first, first + n};
  RemoveFreeLocked(span);
  if (state == SpanState::kFreeReleased) {
    const PageRange front = BackedWithLocked(*span, first, step);
    const PageRange back = BackedWithLocked(*span, first + n - Length(1), step);
    if (front.first < first) backed->first = front.first;
    if (back.end > backed->end) backed->end = back.end;
    CountReleasedLocked(backed->first, backed->end - backed->first, false);
    commits_.Add(1);
  }
  // From the left: as it was, with memory from now on, what is wanted, and the same mirrored. No
  // piece is free before it is inserted, so that nothing is joined with the middle.
  span->state.store(SpanState::kReleasing, std::memory_order_relaxed);
  const auto insert = [this](Span* piece, SpanState as) TC_NO_THREAD_SAFETY_ANALYSIS {
    piece->state.store(as, std::memory_order_relaxed);
    InsertFreeLocked(piece);
  };
  if (backed->first > span->first_page) {
    Span* const rest = SplitLocked(span, backed->first - span->first_page);
    insert(span, state);
    span = rest;
  }
  if (first > backed->first) {
    Span* const rest = SplitLocked(span, first - backed->first);
    insert(span, SpanState::kFreeMapped);
    span = rest;
  }
  if (span->num_pages == n) return span;
  Span* const behind = SplitLocked(span, n);
  if (backed->end == behind->first_page) {
    insert(behind, state);
    return span;
  }
  const Length mapped = backed->end - behind->first_page;
  if (behind->num_pages > mapped) insert(SplitLocked(behind, mapped), state);
  insert(behind, SpanState::kFreeMapped);
  return span;
}

Span* PageHeap::FullestOfEqualLocked(Span* span, FreeKind kind) {
  if (span == nullptr || hugepages_.mode == HugepageMode::kNever) return span;
  return free_[kind].BestOfEqual(span, kTuning.hugepages.equals_looked_at,
                                 [this](const Span& a, const Span& b) TC_NO_THREAD_SAFETY_ANALYSIS {
                                   return page_map_.HugepageOf(a.first_page).used >
                                          page_map_.HugepageOf(b.first_page).used;
                                 });
}

void PageHeap::Populate(const PageRange& range) {
  if (!can_populate_.load(std::memory_order_relaxed)) return;
  // Pages that another thread meanwhile takes are there when it touches them, or are not; memory
  // that it gives back meanwhile may come back, which costs memory, nothing else.
  if (vm_.Populate(range.first.start_address(), range.bytes())) {
    const SpinLockHolder holder(lock_);
    populations_.Add(1);
  } else {
    // Before Linux 5.14, or memory of another kind.
    can_populate_.store(false, std::memory_order_relaxed);
  }
}

void PageHeap::StopHugepagesAt(PageId page, bool hole) {
  PageRange range = {HugepageStart(page), HugepageEnd(page)};
  {
    const SpinLockHolder holder(lock_);
    Hugepage& hugepage = page_map_.HugepageOf(page);
    hugepage.holes |= hole;
    if (!hugepage.advised) return;
    // What was asked for in the block around it. All of a block has one leaf of the page map.
    const PageId begin(page.index() & ~(kTuning.hugepages.stopped_at_once.pages() - 1));
    const PageId end = begin + kTuning.hugepages.stopped_at_once;
    while (range.first > begin && page_map_.HugepageOf(range.first - Length(1)).advised) {
      range.first = range.first - kHugepagePages;
    }
    while (range.end < end && page_map_.HugepageOf(range.end).advised) {
      range.end += kHugepagePages;
    }
    MarkAdvisedLocked(range.first, range.end - range.first, false);
    if (num_stopped_ < kStoppedRemembered) stopped_[num_stopped_++] = range;
  }
  vm_.AdviseHugepages(range.first.start_address(), range.bytes(), false);
}

void PageHeap::ResumeHugepages() {
  for (size_t i = 0;; ++i) {
    PageRange range{};
    bool resume = false;
    {
      const SpinLockHolder holder(lock_);
      if (i >= num_stopped_) return;
      range = stopped_[i];
      bool owned = false;
      for (const Region* r = regions_; r != nullptr && !owned; r = r->next) {
        owned = range.first >= r->first && range.end <= r->first + r->length;
      }
      bool broken = false;
      if (owned) {
        ForEachHugepageLocked(
            range.first, range.end - range.first, [&broken](const Hugepage& hugepage, uint16_t) {
              broken |= hugepage.holes ||
                        (hugepage.released != 0 && hugepage.released != kHugepagePages.pages());
            });
        // What is on its way is not counted yet.
        for (const Span* s = in_flight_.first(); s != nullptr; s = IntrusiveList<Span>::Next(s)) {
          broken |= s->first_page < range.end && range.first <= s->last_page();
        }
        if (broken) continue;
        MarkAdvisedLocked(range.first, range.end - range.first, true);
        resume = true;
      }
      stopped_[i--] = stopped_[--num_stopped_];
    }
    if (!resume) continue;
    vm_.AdviseHugepages(range.first.start_address(), range.bytes(), true);
    // Another thread may have stopped them again since, and the system heard of it first.
    bool stopped = false;
    {
      const SpinLockHolder holder(lock_);
      ForEachHugepageLocked(
          range.first, range.end - range.first,
          [&stopped](const Hugepage& hugepage, uint16_t) { stopped |= !hugepage.advised; });
      if (stopped) MarkAdvisedLocked(range.first, range.end - range.first, false);
    }
    if (stopped) vm_.AdviseHugepages(range.first.start_address(), range.bytes(), false);
  }
}

}  // namespace tcmalloc
