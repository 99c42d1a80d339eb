// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: what gives memory and address space back to the system.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/tuning.h"
#include "os/futex.h"
#include "os/thread_number.h"
#include "page/page_heap.h"

namespace tcmalloc {

void PageHeap::ReleaseAfterFreeing(bool decide) {
  if (releasing_.load(std::memory_order_relaxed) == Releasing::kEager) {
    // Only what was freed since the last time is there.
    ReleasePass(kMaxLength, kMaxLength, kTuning.release.max_refusals, true);
  } else if (decide) {
    ReleaseFreed();
  }
  ReleaseWhenAboveSoftLimit();
  UnmapWhenShort();
  const auto observer = decide ? free_observer_.load(std::memory_order_acquire) : nullptr;
  if (observer != nullptr) observer();
}

void PageHeap::ReleaseFreed() {
  Length most = kReleaseSlice;
  if (is_prompt_.load(std::memory_order_relaxed)) {
    const SpinLockHolder holder(lock_);
    most = release_policy_.TakePromptAllowance();
  }
  while (most > Length(0)) {
    const Length slice = std::min(most, kReleaseSlice);
    if (ReleaseDue(slice, false) < slice) return;
    most -= slice;
  }
}

Length PageHeap::ReleaseDue(Length most, bool idle) {
  const int64_t now_ms = options_.now_ms();
  if (idle) DrainSpanCaches();
  ReleasePolicy::Decision decision;
  {
    const SpinLockHolder holder(lock_);
    decision = release_policy_.Decide(now_ms,
                                      {.in_use = InUseLocked(),
                                       .free_mapped = free_[kMapped].total(),
                                       .prompt = is_prompt_.load(std::memory_order_relaxed)},
                                      most);
  }
  if (decision.length == Length(0)) return Length(0);
  const Length released = ReleasePass(decision.length, decision.length,
                                      kTuning.release.max_refusals, decision.may_break);
  if (released > decision.length) {
    const SpinLockHolder holder(lock_);
    release_policy_.ReleasedMore(released - decision.length);
  }
  return released;
}

Span* PageHeap::FindLongestFreeLocked() {
  Span* const mapped = free_[kMapped].FindLongest();
  Span* const released = free_[kReleased].FindLongest();
  if (mapped == nullptr || released == nullptr) return mapped != nullptr ? mapped : released;
  return mapped->num_pages > released->num_pages ? mapped : released;
}

void PageHeap::UnmapWhenShort() {
  if (!address_space_is_short_.load(std::memory_order_relaxed)) return;
  const size_t free_bytes = FreePages().bytes();
  if (free_bytes < kTuning.address_space.min_unmapped_bytes ||
      free_bytes < system_bytes_.value() / kTuning.address_space.unmap_above_part)
    return;
  UnmapAtLeast(Length::ForBytes(free_bytes -
                                system_bytes_.value() / kTuning.address_space.unmap_down_to_part),
               kTuning.address_space.max_refusals);
}

Span* PageHeap::TakeOutLongestFree(SpanState* state) {
  void* const region_memory = arena_.Allocate(sizeof(Region));
  if (region_memory == nullptr) return nullptr;
  Region* unused = new (region_memory) Region;
  Span* span;
  {
    const SpinLockHolder holder(lock_);
    span = FindLongestFreeLocked();
    if (span != nullptr) {
      *state = span->state.load(std::memory_order_relaxed);
      RemoveFreeLocked(span);
      span->state.store(SpanState::kUnmapped, std::memory_order_relaxed);
      page_map_.SetSpan(span->first_page, nullptr);
      page_map_.SetSpan(span->last_page(), nullptr);
      unused = RemoveRegionLocked(span->first_page, span->num_pages, unused);
      system_bytes_.Subtract(span->bytes());
      MarkAdvisedLocked(span->first_page, span->num_pages, false);
      if (*state == SpanState::kFreeReleased) {
        CountReleasedLocked(span->first_page, span->num_pages, false);
      }
    }
  }
  FreeRegions(unused);
  return span;
}

void PageHeap::UnmapAtLeast(Length n, size_t max_refusals) {
  // Aside, so that others are found.
  IntrusiveList<Span> refused_mapped;
  IntrusiveList<Span> refused_released;
  size_t refusals = 0;
  for (Length total; total < n && refusals < max_refusals;) {
    SpanState state = SpanState::kUnused;
    Span* const span = TakeOutLongestFree(&state);
    if (span == nullptr) break;
    if (!vm_.Unmap(span->start_address(), span->bytes())) {
      (state == SpanState::kFreeReleased ? refused_released : refused_mapped).Prepend(span);
      ++refusals;
      continue;
    }
    total += span->num_pages;
    const SpinLockHolder holder(lock_);
    unmapped_total_bytes_.Add(span->bytes());
    if (state == SpanState::kFreeMapped) unmapped_backed_bytes_.Add(span->bytes());
    ReturnRecordLocked(span);
  }
  while (Span* const span = refused_mapped.PopFirst()) AddSpan(span, SpanState::kFreeMapped);
  while (Span* const span = refused_released.PopFirst()) AddSpan(span, SpanState::kFreeReleased);
}

void PageHeap::AddSpan(Span* span, SpanState state) {
  void* const region_memory = arena_.Allocate(sizeof(Region));
  // Without a record for its region the span stays as it is: unmapped to us, mapped to the system.
  if (region_memory == nullptr) return;
  Region* joined;
  {
    const SpinLockHolder holder(lock_);
    system_bytes_.Add(span->bytes());
    joined = AddRegionLocked(new (region_memory) Region{span->first_page, span->num_pages});
    span->state.store(state, std::memory_order_relaxed);
    if (state == SpanState::kFreeReleased) {
      CountReleasedLocked(span->first_page, span->num_pages, true);
    }
    InsertFreeLocked(span);
  }
  FreeRegions(joined);
}

Length PageHeap::ReleaseAtLeast(Length n) {
  DrainSpanCaches();
  return ReleasePass(n, n, std::numeric_limits<size_t>::max(), true);
}

Length PageHeap::ReleasePass(Length at_least, Length at_most, size_t max_refusals, bool may_break) {
  Length total;
  if (releasing_.load(std::memory_order_relaxed) == Releasing::kNever) return total;
  size_t refusals = 0;
  while (total < at_least && refusals < max_refusals) {
    const SliceResult slice = ReleaseSlice(at_most - total, may_break);
    if (slice.length == Length(0)) break;
    if (slice.released) {
      total += slice.length;
    } else {
      ++refusals;
    }
  }
  // As many as this pass put there, whoever's they are; a few at a time, for the sake of the lock.
  while (refusals > 0) {
    const size_t n =
        refusals < kTuning.release.restored_at_once ? refusals : kTuning.release.restored_at_once;
    const SpinLockHolder holder(lock_);
    RestoreLocked(refused_, n);
    refusals -= n;
  }
  return total;
}

PageHeap::Releasable PageHeap::FindReleasableLocked(Length limit, bool may_break) {
  const auto whole_hugepages = [](const Span& span) {
    return PageRange{HugepageStart(span.first_page + kHugepagePages - Length(1)),
                     HugepageStart(span.first_page + span.num_pages)};
  };
  // Memory without hugepages, or whole ones.
  Span* const span = free_[kMapped].FindLongestWhere(
      [&](const Span& s) TC_NO_THREAD_SAFETY_ANALYSIS {
        const PageRange whole = whole_hugepages(s);
        return !IsAdvisedLocked(s) || whole.first < whole.end;
      },
      kTuning.release.spans_looked_at);
  Releasable found;
  if (span != nullptr && IsAdvisedLocked(*span)) {
    found = {span, whole_hugepages(*span)};
    limit = InWholeHugepages(limit);
  } else {
    Span* const any = span != nullptr ? span : may_break ? free_[kMapped].FindLongest() : nullptr;
    if (any == nullptr) return found;
    found = {any, {any->first_page, any->first_page + any->num_pages}};
    // One end is in no hugepage; the other may be in one that goes on.
    if (span != nullptr && BreaksLocked(found.range, any->first_page)) {
      found.range.first = HugepageEnd(any->first_page);
    }
  }
  if (found.range.end > found.range.first + limit) found.range.end = found.range.first + limit;
  const PageId last = found.range.end - Length(1);
  if (span != nullptr && BreaksLocked(found.range, last)) {
    const bool all_free = HugepageEnd(last) <= span->first_page + span->num_pages;
    found.range.end = all_free ? HugepageEnd(last) : HugepageStart(last);
  }
  return found;
}

bool PageHeap::BreaksLocked(const PageRange& range, PageId page) {
  return page_map_.HugepageOf(page).advised &&
         (range.first > HugepageStart(page) || range.end < HugepageEnd(page));
}

PageHeap::SliceResult PageHeap::ReleaseSlice(Length limit, bool may_break) {
  if (limit > kReleaseSlice) limit = kReleaseSlice;
  limit = RoundUp(limit);
  Span* span = nullptr;
  bool breaks[2] = {};  // the first, the last hugepage of the range
  for (bool may_add_records = true; span == nullptr;) {
    {
      const SpinLockHolder holder(lock_);
      const Releasable found = FindReleasableLocked(limit, may_break);
      if (found.span == nullptr) return SliceResult();
      const Length n = found.range.end - found.range.first;
      const bool cut = found.span->num_pages > n;
      const bool cut_twice = cut && found.range.first > found.span->first_page &&
                             found.range.end <= found.span->last_page();
      const bool can_cut = num_records_ >= kSpareRecords + (cut_twice ? 2 : 1);
      if (!cut || can_cut || !may_add_records) {
        span = found.span;
        if (cut && can_cut) {
          PageRange backed;
          span = CarveLocked(span, found.range.first, n, Length(0), &backed);
        } else {
          RemoveFreeLocked(span);
        }
        // Without a record for its rest it may be longer than what was found.
        const PageRange range = {span->first_page, span->first_page + span->num_pages};
        breaks[0] = BreaksLocked(range, range.first);
        breaks[1] = BreaksLocked(range, span->last_page());
        span->state.store(SpanState::kReleasing, std::memory_order_relaxed);
        span->release_number = ++releases_begun_;
        span->releasing_thread = ThisThreadNumber();
        in_flight_.Prepend(span);
        releasing_bytes_.Add(span->bytes());
      }
    }
    if (span == nullptr) may_add_records = AddRecords();
  }
  if (breaks[0]) StopHugepagesAt(span->first_page, false);
  if (breaks[1]) StopHugepagesAt(span->last_page(), false);
  const Length n = span->num_pages;
  const bool released = vm_.Release(span->start_address(), span->bytes());
  bool awaited;
  {
    const SpinLockHolder holder(lock_);
    if (released && (breaks[0] || breaks[1])) hugepages_broken_.Add(1);
    EndReleaseLocked(span, released);
    awaited = release_waiters_ > 0;
  }
  if (awaited) FutexWakeAll(&release_ends_);
  return {n, released};
}

void PageHeap::EndReleaseLocked(Span* span, bool released) {
  in_flight_.Remove(span);
  span->num_objects = 0;
  release_ends_.store(release_ends_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!released) {
    refused_.Prepend(span);
    return;
  }
  releasing_bytes_.Subtract(span->bytes());
  releases_.Add(1);
  released_total_bytes_.Add(span->bytes());
  CountReleasedLocked(span->first_page, span->num_pages, true);
  span->state.store(SpanState::kFreeReleased, std::memory_order_relaxed);
  InsertFreeLocked(span);
}

void PageHeap::RestoreLocked(IntrusiveList<Span>& spans, size_t most) {
  for (; most > 0; --most) {
    Span* const span = spans.PopFirst();
    if (span == nullptr) return;
    releasing_bytes_.Subtract(span->bytes());
    span->state.store(SpanState::kFreeMapped, std::memory_order_relaxed);
    InsertFreeLocked(span);
  }
}

void PageHeap::RestoreAfterForkInChild() TC_NO_THREAD_SAFETY_ANALYSIS {
  // A signal handler may have forked in the middle of this thread's own release, which goes on.
  IntrusiveList<Span> own;
  IntrusiveList<Span> others;
  while (Span* const span = in_flight_.PopFirst()) {
    const bool is_own = span->releasing_thread == ThisThreadNumber();
    if (!is_own) span->num_objects = 0;
    (is_own ? own : others).Prepend(span);
  }
  while (Span* const span = own.PopFirst()) in_flight_.Prepend(span);
  // Whether the pages of those went before the fork is not known.
  RestoreLocked(others, std::numeric_limits<size_t>::max());
  RestoreLocked(refused_, std::numeric_limits<size_t>::max());
  // Who waited for them is not there.
  release_waiters_ = 0;
  moves_in_flight_ = 0;
}

void PageHeap::SetReleaseRate(double rate) {
  const SpinLockHolder holder(lock_);
  release_policy_.SetRate(rate);
  release_rate_is_positive_.store(rate > 0, std::memory_order_relaxed);
}

double PageHeap::release_rate() {
  const SpinLockHolder holder(lock_);
  return release_policy_.rate();
}

}  // namespace tcmalloc
