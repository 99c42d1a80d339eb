// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: large objects that realloc cannot grow where they are. Where fresh memory would have to
// be taken for a copy, their pages are moved in the page tables of the process instead.
//
// The new place is always a mapping of its own, which becomes the heap's when the move has
// succeeded: one that fails leaves a hole in the address space there (VirtualMemory::Move).
// Until then only this thread knows the place, and only its caller uses the object. Between the
// move and the moment when the new span is made under the lock, the contents are in no span:
// whoever looks at all objects meanwhile would miss what they point to. So moves are counted from
// the decision, under the lock, to that moment, and who holds the lock and sees one looks again
// later. What others may do meanwhile is to give advice about hugepages around the old place; the
// new one is advised anew after the move, and marked with that, so it does not matter what the
// pages brought along.
#include <cstring>

#include "base/tuning.h"
#include "page/page_heap.h"

namespace tcmalloc {

bool PageHeap::PlanMoveLocked(const Span& span, Length n, MovePlan* plan) {
  // Into what is free and has memory a copy costs no fresh memory. What is not zero-filled is not
  // the process's own.
  if (!span.zero_filled || n <= span.num_pages || free_[kMapped].FindBestFit(n) != nullptr) {
    return false;
  }
  if (address_space_is_short_.load(std::memory_order_relaxed)) return false;
  // What is moved counts only when it has: several at once could pass a hard limit together.
  LimitPass pass;
  if (limits_.hard_bytes != kNoLimit) return false;
  if (limits_.any() && NeedsRoomLocked(n - span.num_pages, n, pass)) return false;
  // Whole page tables go at once where both places begin at the same distance from a hugepage.
  const bool in_hugepages = hugepages_.mode != HugepageMode::kNever;
  const Length offset = span.first_page - HugepageStart(span.first_page);
  plan->hugepages = page_map_.HugepageOf(span.first_page).advised;
  // A copy is soon made up for where what is added then comes in hugepages.
  if (!plan->hugepages && GrowsInHugepagesLocked(n)) return false;
  plan->front = in_hugepages ? offset : Length(0);
  plan->head = Length(0);
  plan->moved = span.num_pages;
  plan->mapped = plan->front + n;
  if (plan->hugepages) {
    plan->head = offset == Length(0) ? offset : kHugepagePages - offset;
    if (plan->head >= span.num_pages) return false;
    const Length rest = span.num_pages - plan->head;
    plan->moved = Length(rest.pages() & ~(kHugepagePages.pages() - 1));
    plan->mapped = InWholeHugepages(plan->mapped);
  }
  return plan->moved >= kTuning.hugepages.huge_object &&
         IsAdvisedAllOverLocked(span.first_page, span.num_pages, plan->hugepages);
}

Span* PageHeap::MoveLargeAt(Span* span, const void* p, Length n, void** sample) {
  if (n > kMaxLength || moves_left_.load(std::memory_order_relaxed) == 0) return nullptr;
  n = RoundUp(n);
  MovePlan plan;
  HugepageMode mode;
  {
    const SpinLockHolder holder(lock_);
    if (!IsLargeAt(span, p) || !PlanMoveLocked(*span, n, &plan)) return nullptr;
    mode = hugepages_.mode;
    ++moves_in_flight_;
  }
  const PageId from = span->first_page + plan.head;
  const size_t sample_bytes = plan.hugepages ? kHugepageSize : granule_.bytes();
  if (!vm_.MayMove(from.start_address(), sample_bytes)) {
    const SpinLockHolder holder(lock_);
    --moves_in_flight_;
    return nullptr;
  }
  // For cutting the new mapping and the old span, once nothing can be undone any more.
  constexpr size_t kRecords = kRecordsPerOperation + 2;
  IntrusiveList<Span> records;
  size_t num_records = 0;
  while (num_records < kRecords) {
    Span* const record = TakeRecord();
    if (record == nullptr) break;
    records.Prepend(record);
    ++num_records;
  }
  const auto return_records = [&]() TC_REQUIRES(lock_) {
    while (Span* const record = records.PopFirst()) ReturnRecordLocked(record);
  };
  NewMapping made;
  const size_t alignment = mode == HugepageMode::kNever ? granule_.bytes() : kHugepageSize;
  if (num_records < kRecords || !MapNew(plan.mapped, alignment, &made)) {
    const SpinLockHolder holder(lock_);
    --moves_in_flight_;
    return_records();
    return nullptr;
  }
  const Length mapped = made.length(granule_);
  const PageId place = PageId::Containing(made.mapping.start) + plan.front;
  const PageId to = place + plan.head;
  const PageId to_end = to + plan.moved;
  const PageId end = place - plan.front + mapped;
  bool moved = false;
  if (made.mapping.zero_filled) {
    moves_left_.fetch_sub(1, std::memory_order_relaxed);
    const bool may_move = vm_.MayMove(to.start_address(), sample_bytes);
    moved = may_move && vm_.Move(from.start_address(), plan.moved.bytes(), to.start_address(),
                                 (end - to).bytes());
    if (!moved) {
      // Where the pages should have gone may be someone else's memory by now.
      const auto unmap = [this](PageId first, PageId last) {
        if (first < last)
          static_cast<void>(vm_.Unmap(first.start_address(), (last - first).bytes()));
      };
      unmap(place - plan.front, to);
      if (!may_move) unmap(to, end);
      Forget(made);
    }
  }
  if (moved && mode != HugepageMode::kNever) {
    vm_.AdviseHugepages(made.mapping.start, mapped.bytes(), plan.hugepages);
  }
  if (moved) {
    const Length rest = span->num_pages - plan.head - plan.moved;
    memcpy(place.start_address(), p, plan.head.bytes());
    memcpy(to_end.start_address(), (from + plan.moved).start_address(), rest.bytes());
  }
  Span* fresh = nullptr;
  Region* joined = nullptr;
  bool time_to_decide = false;
  {
    const SpinLockHolder holder(lock_);
    --moves_in_flight_;
    return_records();
    // Memory of another kind, which a program's allocator has begun to provide, is for others.
    if (made.mapping.zero_filled ? moved : made.mapping.start != nullptr) {
      joined = AddMappingLocked(made, plan.hugepages && moved);
    }
    if (moved) {
      PageRange backed;
      fresh = CarveLocked(made.span, place, n, Length(0), &backed);
      CountUsedLocked(place, n, true);
      fresh->in_use.written = n;
      fresh->in_use.handed_out_ms = span->in_use.handed_out_ms;
      fresh->state.store(SpanState::kLarge, std::memory_order_relaxed);
      large_span_bytes_.Add(n.bytes());
      large_spans_.Add(1);
      moves_.Add(1);
      span->TakeSample(sample);
      fresh->sample = nullptr;
      time_to_decide = DeleteMovedLocked(span, plan.head, plan.moved);
      RecordDemandLocked(true);
      if (limits_.any()) NoteGrownLocked();
    }
  }
  FreeRegions(joined);
  if (!moved) return nullptr;
  TellOfGrowth(mapped);
  ReleaseAfterFreeing(time_to_decide);
  return fresh;
}

bool PageHeap::DeleteMovedLocked(Span* span, Length head, Length moved) {
  large_span_bytes_.Subtract(span->bytes());
  large_spans_.Subtract(1);
  CountUsedLocked(span->first_page, span->num_pages, false);
  const bool time_to_decide = PagesFreedLocked(span->num_pages - moved);
  const auto free = [this](Span* part, SpanState state) TC_NO_THREAD_SAFETY_ANALYSIS {
    part->state.store(state, std::memory_order_relaxed);
    InsertFreeLocked(part);
  };
  // Each part is cut off before it is freed: then it may become a part of its neighbours.
  if (head > Length(0)) {
    Span* const behind = SplitLocked(span, head);
    free(span, SpanState::kFreeMapped);
    span = behind;
  }
  Span* const rest = span->num_pages > moved ? SplitLocked(span, moved) : nullptr;
  CountReleasedLocked(span->first_page, moved, true);
  free(span, SpanState::kFreeReleased);
  if (rest != nullptr) free(rest, SpanState::kFreeMapped);
  return time_to_decide;
}

}  // namespace tcmalloc
