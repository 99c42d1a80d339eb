// SPDX-License-Identifier: BSD-3-Clause
// AddressSpace: what returns memory and address space to the OS.
#include <algorithm>
#include <limits>

#include "os/futex.h"
#include "os/thread_number.h"
#include "page/address_space.h"

namespace tcmalloc {

Length AddressSpace::Release(const ReleasePlan& plan) {
  Length total;
  if (state_.hints.releasing.value() == Releasing::kNever) return total;
  size_t refusals = 0;
  for (size_t slices = 0;
       total < plan.length && slices < plan.max_slices && refusals < plan.max_refusals;) {
    const SliceResult slice = ReleaseSlice(plan.length - total, plan.may_split);
    if (slice.length == Length(0)) break;
    if (slice.released) {
      total += slice.length;
      ++slices;
    } else {
      ++refusals;
    }
  }
  // As many as this pass put there, whoever's they are; a few at a time, for the sake of the lock.
  while (refusals > 0) {
    const size_t n = std::min(refusals, kTuning.release.restored_at_once);
    const SpinLockHolder holder(state_.lock);
    Restore(refused_, n);
    refusals -= n;
  }
  return total;
}

AddressSpace::SliceResult AddressSpace::ReleaseSlice(Length limit, bool may_split) {
  const Length granule = Length::ForBytes(vm_.hardware_page_size());
  limit = std::min(limit, kTuning.release.slice);
  limit = Length((limit.pages() + granule.pages() - 1) & ~(granule.pages() - 1));
  InFlight slice = {};
  bool splits[2] = {};  // the first, the last hugepage of the span
  const auto take = [&](bool may_cut) TC_REQUIRES(state_.lock) {
    Span* const span = state_.store.TakeReleasable(limit, may_split, may_cut);
    if (span == nullptr) return;
    splits[0] = state_.store.hugepages().WouldSplit(span->pages(), span->first_page);
    splits[1] = state_.store.hugepages().WouldSplit(span->pages(), span->last_page());
    slice = {span, ++releases_begun_, ThisThreadNumber(), {}};
    in_flight_.Prepend(&slice);
  };
  if (!state_.WithRecords([&]() TC_REQUIRES(state_.lock) { take(true); })) {
    const SpinLockHolder holder(state_.lock);
    take(state_.store.num_records() >= SpanStore::kSpareRecords + 2);
  }
  Span* const span = slice.span;
  if (span == nullptr) return {};
  if (splits[0]) StopHugepagesAt(span->first_page, false);
  if (splits[1]) StopHugepagesAt(span->last_page(), false);
  const Length n = span->num_pages;
  const bool released = vm_.Release(span->start_address(), span->bytes());
  bool awaited;
  {
    const SpinLockHolder holder(state_.lock);
    in_flight_.Remove(&slice);
    release_ends_.store(release_ends_.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    awaited = release_waiters_ > 0;
    if (released) {
      PageCounts& counts = state_.store.counts;
      ++counts.releases;
      counts.released_total_bytes += n.bytes();
      if (splits[0] || splits[1]) ++counts.hugepages_broken;
      state_.store.EndRelease(span, true);
    } else {
      refused_.Prepend(span);
    }
  }
  if (awaited) FutexWakeAll(&release_ends_);
  return {n, released};
}

void AddressSpace::Restore(IntrusiveList<Span>& spans, size_t most) {
  for (; most > 0; --most) {
    Span* const span = spans.PopFirst();
    if (span == nullptr) return;
    state_.store.EndRelease(span, false);
  }
}

// For what is under way now and for nothing else: threads that are refused again and again, whose
// passes follow one another, do not wait for each other's for ever. Each of those ends, since who
// releases memory needs nothing but the OS and the lock for it; but that lock is held for fork, if
// it is the forking thread that allocates, until its handlers have returned.
//
// No end is missed: `ends` is read with the lock held, under which it changes, and a thread that
// changes it after that sees this one among the waiters and wakes it.
bool AddressSpace::WaitForRelease(size_t releases) {
  uint64_t last_release = 0;
  bool waits = false;
  for (;;) {
    uint32_t ends;
    {
      const SpinLockHolder holder(state_.lock);
      if (waits) --release_waiters_;
      if (state_.store.counts.releases != releases) return true;
      if (!waits) last_release = releases_begun_;
      if (!IsUnderWay(last_release) || state_.lock.HeldForForkByThisThread()) return false;
      waits = true;
      ++release_waiters_;
      ends = release_ends_.load(std::memory_order_relaxed);
    }
    FutexWait(&release_ends_, ends);
  }
}

bool AddressSpace::IsUnderWay(uint64_t last_release) const {
  const InFlight* slice = in_flight_.first();
  while (slice != nullptr && slice->number > last_release) {
    slice = IntrusiveList<InFlight>::Next(slice);
  }
  return slice != nullptr;
}

bool AddressSpace::IsInFlight(PageRange range) const {
  const InFlight* slice = in_flight_.first();
  while (slice != nullptr &&
         (slice->span->end() <= range.first || slice->span->first_page >= range.end)) {
    slice = IntrusiveList<InFlight>::Next(slice);
  }
  return slice != nullptr;
}

void AddressSpace::RestoreAfterForkInChild() TC_NO_THREAD_SAFETY_ANALYSIS {
  // A signal handler may have forked in the middle of this thread's own release, which goes on. Of
  // the others' it is not known whether their pages went before the fork.
  for (InFlight* next = in_flight_.first(); next != nullptr;) {
    InFlight* const slice = next;
    next = IntrusiveList<InFlight>::Next(slice);
    if (slice->thread == ThisThreadNumber()) continue;
    in_flight_.Remove(slice);
    state_.store.EndRelease(slice->span, false);
  }
  Restore(refused_, std::numeric_limits<size_t>::max());
  // Who waited for them is not there.
  release_waiters_ = 0;
  state_.moves_in_flight = 0;
}

void AddressSpace::UnmapWhenShort() {
  const auto& t = kTuning.address_space;
  size_t free_bytes;
  size_t system_bytes;
  {
    const SpinLockHolder holder(state_.lock);
    free_bytes = state_.FreePages().bytes();
    system_bytes = state_.store.counts.system_bytes;
  }
  if (free_bytes < t.min_unmapped_bytes || free_bytes < system_bytes / t.unmap_above_part) return;
  UnmapAtLeast(Length::ForBytes(free_bytes - system_bytes / t.unmap_down_to_part), t.max_refusals);
}

void AddressSpace::UnmapAtLeast(Length n, size_t max_refusals) {
  // Aside, so that others are found.
  IntrusiveList<Span> refused_mapped;
  IntrusiveList<Span> refused_released;
  size_t refusals = 0;
  for (Length total; total < n && refusals < max_refusals;) {
    SpanState state = SpanState::kUnused;
    Span* span = nullptr;
    const auto remove = [&]()
                            TC_REQUIRES(state_.lock) { span = state_.store.RemoveLongest(&state); };
    if (!state_.WithRecords(remove) || span == nullptr) break;
    if (!vm_.Unmap(span->start_address(), span->bytes())) {
      (state == SpanState::kFreeReleased ? refused_released : refused_mapped).Prepend(span);
      ++refusals;
      continue;
    }
    total += span->num_pages;
    const SpinLockHolder holder(state_.lock);
    PageCounts& counts = state_.store.counts;
    counts.unmapped_total_bytes += span->bytes();
    if (state == SpanState::kFreeMapped) counts.unmapped_backed_bytes += span->bytes();
    state_.store.ReturnRecord(span);
  }
  const auto add_back = [this](IntrusiveList<Span>& spans, SpanState state) {
    while (Span* const span = spans.PopFirst()) {
      // Without a record for its region the span stays out: unmapped to us, mapped to the OS.
      static_cast<void>(state_.WithRecords([&]() TC_REQUIRES(state_.lock) {
        const PageRange pages = span->pages();
        const bool zero_filled = span->zero_filled;
        state_.store.ReturnRecord(span);
        state_.store.AddPages(pages, state, zero_filled);
      }));
    }
  };
  add_back(refused_mapped, SpanState::kFreeMapped);
  add_back(refused_released, SpanState::kFreeReleased);
}

}  // namespace tcmalloc
