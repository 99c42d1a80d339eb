// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: what keeps it within its memory limits. A limit is looked at where memory that has
// nothing behind it is taken, under the lock and so exactly; the release that it asks for happens
// outside, and then the request is made again.
#include "base/tuning.h"
#include "os/futex.h"
#include "page/page_heap.h"

namespace tcmalloc {

void PageHeap::SetLimit(LimitKind kind, size_t bytes, LimitOrigin origin) {
  {
    const SpinLockHolder holder(lock_);
    bool& by_program = limit_set_by_program_[Index(kind)];
    if (origin == LimitOrigin::kProgram) {
      by_program = true;
    } else if (by_program) {
      return;
    }
    if (limits_.of(kind) == bytes) return;
    limits_.of(kind) = bytes;
    retention_.SetLimit(std::min(limits_.hard_bytes, limits_.soft_bytes));
    if (kind == LimitKind::kSoft) {
      limit_watch_.Reset();
      limit_event_due_.store(false, std::memory_order_relaxed);
      soft_release_refused_ = false;
      LookAtSoftLimitLocked();
    }
  }
}

size_t PageHeap::limit(LimitKind kind) {
  const SpinLockHolder holder(lock_);
  return limits_.of(kind);
}

Length PageHeap::ReleaseAboveLimits() {
  Length total;
  for (const LimitKind kind : {LimitKind::kHard, LimitKind::kSoft}) {
    size_t excess;
    {
      const SpinLockHolder holder(lock_);
      excess = LimitExcess(limits_.of(kind), BackedBytesLocked(), 0);
    }
    if (excess == 0) continue;
    const Length released = ReleaseAtLeast(Length::ForBytes(excess));
    CountLimitRelease(kind, released);
    total += released;
  }
  return total;
}

size_t PageHeap::BackedBytesLocked() const {
  return system_bytes_.value() - free_[kReleased].total().bytes() + arena_.mapped_bytes();
}

size_t PageHeap::BackedBytes() {
  const SpinLockHolder holder(lock_);
  return BackedBytesLocked();
}

bool PageHeap::MayFitAfterFlush(Length n) {
  const SpinLockHolder holder(lock_);
  if (limits_.hard_bytes != kNoLimit && n.bytes() <= limits_.hard_bytes) return true;
  return n.bytes() <= system_bytes_.value();
}

bool PageHeap::NeedsRoomLocked(Length fresh, Length n, LimitPass& pass) {
  const size_t backed_bytes = BackedBytesLocked();
  pass.decision = DecideGrowth(limits_, backed_bytes, fresh.bytes(), pass.soft_served);
  // What is released may be of the place that was found, often the longest span, and would have to
  // be backed anew. So there is to be room for all of it. (`fresh` may be more than `n`: whole
  // hugepages.)
  if (pass.decision.action == GrowthDecision::Action::kReleaseOrFail && n > fresh) {
    pass.decision = DecideGrowth(limits_, backed_bytes, n.bytes(), pass.soft_served);
  }
  pass.releases = releases_.value();
  return pass.needs_room();
}

void PageHeap::NoteGrownLocked() {
  const size_t backed_bytes = BackedBytesLocked();
  if (!IsAboveSoftLimit(limits_.soft_bytes, backed_bytes, false)) return;
  soft_release_refused_ = false;
  limit_watch_.Grown(backed_bytes, limits_.soft_bytes);
  LookAtSoftLimitLocked();
  limit_event_due_.store(limit_watch_.due(), std::memory_order_relaxed);
}

Span* PageHeap::AllocateWithinLimitsLocked(const Request& request, bool mapped_only,
                                           LimitPass& pass, PageRange* populate) {
  Place place = FindBestPlaceLocked(request, mapped_only);
  if (place.span == nullptr && mapped_only) return nullptr;
  Length fresh = place.span == nullptr ? request.length : FreshPagesAtLocked(place, request.length);
  if (fresh > Length(0) && NeedsRoomLocked(fresh, request.length, pass)) {
    // A request does not fail for the sake of a better place.
    const bool soft = pass.decision.action == GrowthDecision::Action::kReleaseThenGrow;
    if (soft || !place.by_choice) return nullptr;
    if (!pass.tried_instead) {
      pass.mapped_fits = pass.tried_instead = true;
      return nullptr;
    }
    pass.decision = GrowthDecision();
    place = FindPlaceLocked(request, kMapped);
    fresh = Length(0);
  }
  Span* const span = AllocateLocked(request, place, populate);
  if (span != nullptr && fresh > Length(0)) NoteGrownLocked();
  return span;
}

bool PageHeap::ExtendWithinLimitsLocked(Span* span, Length more, LimitPass& pass) {
  Length fresh;
  if (!MayExtendLocked(span, more, &fresh)) {
    pass.decision = GrowthDecision();
    return false;
  }
  const bool grows = fresh > Length(0) && limits_.any();
  const PageId last = span->first_page + span->num_pages + more - Length(1);
  if (grows && page_map_.HugepageOf(last).BackedAtOnce()) {
    fresh += HugepageEnd(last) - last - Length(1);
  }
  if (grows && NeedsRoomLocked(fresh, more, pass)) return false;
  ExtendLocked(span, more);
  if (grows) NoteGrownLocked();
  return true;
}

bool PageHeap::MakeRoom(LimitPass& pass) {
  const GrowthDecision decision = pass.decision;
  pass.decision = GrowthDecision();
  const Length wanted = Length::ForBytes(decision.release_bytes);
  if (decision.action == GrowthDecision::Action::kReleaseThenGrow) {
    pass.soft_served = true;
    {
      const SpinLockHolder holder(lock_);
      ++limit_watch_.counts(LimitKind::kSoft).hits;
    }
    Length total;
    for (size_t slices = 0; total < wanted && slices < kTuning.limits.max_slices_for_soft;
         ++slices) {
      const Length released =
          ReleasePass(Length(1), wanted - total, kTuning.release.max_refusals, true);
      if (released == Length(0)) break;
      total += released;
    }
    CountLimitRelease(LimitKind::kSoft, total);
    return true;
  }
  if (!pass.hard_counted) {
    pass.hard_counted = true;
    const SpinLockHolder holder(lock_);
    ++limit_watch_.counts(LimitKind::kHard).hits;
  }
  if (decision.action == GrowthDecision::Action::kFail && !pass.mapped_fits) {
    return FailAtHardLimit();
  }
  const Length released = ReleaseAtLeast(wanted);
  CountLimitRelease(LimitKind::kHard, released);
  if (pass.mapped_fits) {
    pass.mapped_fits = false;
    return true;
  }
  const bool went = released > Length(0) || WaitForRelease(pass.releases);
  return (went && ++pass.times_went <= kTuning.limits.max_times_taken) || FailAtHardLimit();
}

// For what is under way now and for nothing else: threads that are refused again and again, whose
// passes follow one another, do not wait for each other's for ever. Each of those ends, since who
// gives memory back needs nothing but the system and the lock for it; but that lock is held for
// fork, if it is the forking thread that allocates, until its handlers have returned.
//
// No end is missed: `ends` is read with the lock held, under which it changes, and a thread that
// changes it after that sees this one among the waiters and wakes it.
bool PageHeap::WaitForRelease(size_t releases) {
  uint64_t last_release = 0;
  bool waits = false;
  for (;;) {
    uint32_t ends;
    {
      const SpinLockHolder holder(lock_);
      if (waits) --release_waiters_;
      if (releases_.value() != releases) return true;
      if (!waits) last_release = releases_begun_;
      if (!IsUnderWayLocked(last_release) || lock_.HeldForForkByThisThread()) return false;
      waits = true;
      ++release_waiters_;
      ends = release_ends_.load(std::memory_order_relaxed);
    }
    FutexWait(&release_ends_, ends);
  }
}

bool PageHeap::IsUnderWayLocked(uint64_t last_release) const {
  for (const Span* s = in_flight_.first(); s != nullptr; s = IntrusiveList<Span>::Next(s)) {
    if (s->release_number <= last_release) return true;
  }
  return false;
}

bool PageHeap::FailAtHardLimit() {
  const SpinLockHolder holder(lock_);
  hard_limit_refusals_.Add(1);
  return false;
}

void PageHeap::CountLimitRelease(LimitKind kind, Length released) {
  if (released == Length(0)) return;
  const SpinLockHolder holder(lock_);
  limit_watch_.counts(kind).released_bytes += released.bytes();
}

void PageHeap::LookAtSoftLimitLocked() {
  const size_t backed_bytes = BackedBytesLocked();
  limit_watch_.InUse(backed_bytes - free_[kMapped].total().bytes(), limits_.soft_bytes);
  const bool above =
      IsAboveSoftLimit(limits_.soft_bytes, backed_bytes, false) && !soft_release_refused_;
  above_soft_limit_.store(above, std::memory_order_relaxed);
  near_soft_limit_.store(above || limit_watch_.told(), std::memory_order_relaxed);
}

void PageHeap::ReleaseWhenAboveSoftLimit() {
  if (!near_soft_limit_.load(std::memory_order_relaxed)) return;
  {
    const SpinLockHolder holder(lock_);
    LookAtSoftLimitLocked();
    if (!above_soft_limit_.load(std::memory_order_relaxed) ||
        !FreedMemoryGoesBack(limits_, BackedBytesLocked(), free_[kMapped].total().bytes())) {
      return;
    }
  }
  const Length released = ReleasePass(Length(1), kReleaseSlice, kTuning.release.max_refusals, true);
  CountLimitRelease(LimitKind::kSoft, released);
  if (released > Length(0)) return;
  // Memory that the system does not take back (mlock) is not offered again before the heap grows.
  const SpinLockHolder holder(lock_);
  soft_release_refused_ = true;
  LookAtSoftLimitLocked();
}

void PageHeap::SetLimitCallback(LimitCallback callback, void* context) {
  const SpinLockHolder holder(lock_);
  limit_watch_.SetCallback(callback, context);
  limit_event_due_.store(false, std::memory_order_relaxed);
}

bool PageHeap::TakeSoftLimitEvent(LimitEvent* event) {
  const SpinLockHolder holder(lock_);
  limit_event_due_.store(false, std::memory_order_relaxed);
  return limit_watch_.Take(event);
}

bool PageHeap::HardLimitEvent(LimitEvent* event) {
  const SpinLockHolder holder(lock_);
  return limit_watch_.Refused(BackedBytesLocked(), limits_.hard_bytes, event);
}

}  // namespace tcmalloc
