// SPDX-License-Identifier: BSD-3-Clause
// The parts of AddressSpace that small programs never run: returning memory and address space to
// the OS, and moving the pages of large objects.
#include <algorithm>
#include <cstring>

#include "base/tuned.h"
#include "os/threads.h"
#include "page_heap/address_space.h"
#include "page_heap/hugepage.h"
#include "page_heap/release_policy.h"

namespace tcmalloc {

// The most refused spans that become free under one hold of the lock.
constexpr size_t kRestoredAtOnce = 64;

// After the OS has refused a mapping, the heap unmaps free memory if at least this part of the heap
// is free, until half as much is free. So other users of the address space get room. Not measured.
constexpr size_t kUnmappedPart = Tuned(2, 2, 16);
// The most spans that one free skips because they cannot be unmapped: little of a heap is from
// sbrk.
constexpr size_t kMaxUnmapRefusals = 4;

Length AddressSpace::Release(const ReleasePlan& plan) {
  Length total;
  if (state_.hints.releasing.value() == Releasing::kNever) return total;
  Length due = plan.length;
  size_t slices = 0;
  size_t refusals = 0;
  bool in_parts = plan.max_slices == SIZE_MAX;
  if (in_parts) {
    // The number of slices does not end this release. What other threads free meanwhile does not
    // count: they may free as fast as this one releases, and it would end only when they do.
    const SpinLockHolder holder(state_.lock);
    due = std::min(due, state_.store.free(SpanStore::kBacked));
  }
  while (total < due && slices < plan.max_slices && refusals < plan.max_refusals) {
    bool released;
    const Length n = ReleaseNext(due - total, plan.may_split, in_parts, &released);
    if (n == Length(0)) break;
    if (released) {
      total += n;
      slices += SlicesOf(n);
    } else if (in_parts && n > kReleaseSlice) {
      // One of its slices was refused: from now on each is tried on its own.
      in_parts = false;
    } else {
      ++refusals;
    }
  }
  // A few at a time, for the sake of the lock.
  while (refusals > 0) {
    const SpinLockHolder holder(state_.lock);
    for (size_t i = 0; i < kRestoredAtOnce && refusals > 0; ++i, --refusals) {
      if (!refused_.empty()) state_.store.EndRelease(refused_.PopFirst(), false);
    }
  }
  return total;
}

Length AddressSpace::ReleaseNext(Length limit, bool may_split, bool in_parts, bool* released) {
  Span* span = nullptr;
  bool splits[2] = {};  // the first, the last hugepage of the span
  const auto take = [&](bool may_cut) TC_REQUIRES(state_.lock) {
    // At a limit, threads wait for what is on its way.
    if (!in_parts || state_.governor.limits().any()) {
      limit = std::min(limit, kReleaseSlice);
    }
    limit = Length((limit.pages() + granule_.pages() - 1) & ~(granule_.pages() - 1));
    span = state_.store.TakeReleasable(limit, may_split, may_cut);
    if (span == nullptr) return;
    splits[0] = state_.store.hugepages().WouldSplit(span->pages(), span->first_page);
    splits[1] = state_.store.hugepages().WouldSplit(span->pages(), span->last_page());
    span->release = {++releases_begun_, ThisThreadNumber()};
    in_flight_.Prepend(span);
  };
  // Allocates more records only if there may be too few, since they may take memory of this
  // heap.
  bool can_cut;
  {
    const SpinLockHolder holder(state_.lock);
    can_cut = state_.MayTakeRecords(2);
    if (can_cut) take(true);
  }
  if (!can_cut && !state_.WithRecords([&]() TC_REQUIRES(state_.lock) { take(true); })) {
    const SpinLockHolder holder(state_.lock);
    take(state_.MayTakeRecords(2));
  }
  if (span == nullptr) return Length(0);
  if (splits[0]) StopHugepagesAt(span->first_page, false);
  if (splits[1]) StopHugepagesAt(span->last_page(), false);
  const Length n = span->num_pages;
  *released = ReleasePages(span->pages());
  bool awaited;
  {
    const SpinLockHolder holder(state_.lock);
    in_flight_.Remove(span);
    release_ends_.store(release_ends_.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    awaited = release_waiters_ > 0;
    if (*released) {
      PageCounts& counts = state_.store.counts;
      counts.releases += SlicesOf(n);
      counts.released_total_bytes += n.bytes();
      if (splits[0] || splits[1]) ++counts.hugepages_split;
      state_.store.EndRelease(span, true);
    } else if (in_parts && n > kReleaseSlice) {
      state_.store.EndRelease(span, false);
    } else {
      refused_.Prepend(span);
    }
  }
  if (awaited) FutexWakeAll(&release_ends_);
  return n;
}

bool AddressSpace::ReleasePages(PageRange range) {
  while (range.first < range.end) {
    const Length n = std::min(range.length(), kReleaseSlice);
    if (!vm_.Release(range.start_address(), n.bytes())) return false;
    range.first += n;
  }
  return true;
}

// It waits only for slices that are under way now, so threads that are refused again and again do
// not wait for each other's passes for ever. Each slice ends, since its thread needs only the OS
// and the lock. The exception is a forking thread that allocates in its fork handlers: it holds the
// lock until they have returned, so it does not wait.
//
// No end is missed: release_ends_ changes under the lock, and `ends` is read with the lock held. A
// thread that changes it after that sees this one in release_waiters_ and wakes it.
bool AddressSpace::WaitForRelease(size_t releases) {
  uint64_t last_release = 0;
  bool waits = false;
  for (;;) {
    uint32_t ends;
    {
      const SpinLockHolder holder(state_.lock);
      // A forked child, in which a signal handler returns to here, has forgotten the waiters.
      if (waits && release_waiters_ > 0) --release_waiters_;
      if (state_.store.counts.releases != releases) return true;
      if (!waits) last_release = releases_begun_;
      const auto began = [last_release](const Span& span) {
        return span.release.slice <= last_release;
      };
      if (!AnyUnderWay(began) || state_.lock.HeldForForkByThisThread()) return false;
      waits = true;
      ++release_waiters_;
      ends = release_ends_.load(std::memory_order_relaxed);
    }
    FutexWait(&release_ends_, ends);
  }
}

template <typename F>
bool AddressSpace::AnyUnderWay(F f) const {
  const Span* span = in_flight_.first();
  while (span != nullptr && !f(*span)) span = IntrusiveList<Span>::Next(span);
  return span != nullptr;
}

bool AddressSpace::IsUnderWay(PageRange range) const {
  return AnyUnderWay([range](const Span& span) {
    return span.end() > range.first && span.first_page < range.end;
  });
}

void AddressSpace::RestoreAfterForkInChild() TC_NO_THREAD_SAFETY_ANALYSIS {
  // Of others' spans it is not known whether their pages went before the fork.
  for (IntrusiveList<Span>* const spans : {&in_flight_, &refused_}) {
    for (Span* next = spans->first(); next != nullptr;) {
      Span* const span = next;
      next = IntrusiveList<Span>::Next(span);
      if (span->release.thread == ThisThreadNumber()) continue;
      spans->Remove(span);
      state_.store.EndRelease(span, false);
    }
  }
  state_.moves_in_flight = 0;
  for (uint32_t& thread : moving_threads_) {
    if (thread != ThisThreadNumber()) thread = 0;
    if (thread != 0) ++state_.moves_in_flight;
  }
  // The child has none of the threads that waited, except one whose signal handler forked: that
  // thread checks again whether a release is active.
  release_waiters_ = 0;
  release_ends_.store(release_ends_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void AddressSpace::UnmapWhenShort() {
  const int64_t now_ms = now_ms_();
  size_t free_bytes;
  size_t part_bytes;
  {
    const SpinLockHolder holder(state_.lock);
    const size_t system_bytes = state_.store.counts.system_bytes;
    free_bytes = system_bytes - state_.store.in_use().bytes() + state_.homes.KeptBytes();
    part_bytes = system_bytes / kUnmappedPart;
    Relaxed<AddressSpaceShortage>& shortage = state_.hints.shortage;
    if (free_bytes >= part_bytes && !unmapped_since_) {
      unmapped_since_ = true;
      shortage_ms_ = now_ms;
      shortage.Set(AddressSpaceShortage::kNow);
    } else if (now_ms - shortage_ms_ > kReleaseMemoryMs) {
      shortage.Set(unmapped_since_ ? AddressSpaceShortage::kNone : AddressSpaceShortage::kEarlier);
    }
  }
  if (free_bytes < part_bytes) return;
  UnmapAtLeast(Length::ForBytes(free_bytes - part_bytes / 2), kMaxUnmapRefusals);
}

void AddressSpace::UnmapAtLeast(Length n, size_t max_refusals) {
  // Set aside, so that the next search finds other spans.
  IntrusiveList<Span> refused_backed;
  IntrusiveList<Span> refused_released;
  size_t refusals = 0;
  for (Length total; total < n && refusals < max_refusals;) {
    SpanState state = SpanState::kUnused;
    Span* span = nullptr;
    const auto remove = [&]()
                            TC_REQUIRES(state_.lock) { span = state_.store.RemoveLongest(&state); };
    if (!state_.WithRecords(remove) || span == nullptr) break;
    if (!vm_.Unmap(span->start_address(), span->bytes())) {
      (state == SpanState::kFreeReleased ? refused_released : refused_backed).Prepend(span);
      ++refusals;
      continue;
    }
    total += span->num_pages;
    const SpinLockHolder holder(state_.lock);
    PageCounts& counts = state_.store.counts;
    counts.unmapped_total_bytes += span->bytes();
    if (state == SpanState::kFreeBacked) counts.unmapped_backed_bytes += span->bytes();
    state_.store.ReturnRecord(span);
  }
  const auto add_back = [this](IntrusiveList<Span>& spans, SpanState state) {
    while (Span* const span = spans.PopFirst()) {
      // Without a record for its region the span stays mapped, and unused for good.
      static_cast<void>(state_.WithRecords([&]() TC_REQUIRES(state_.lock) {
        const PageRange pages = span->pages();
        const bool zero_filled = span->zero_filled;
        state_.store.ReturnRecord(span);
        state_.store.AddPages(pages, state, zero_filled);
      }));
    }
  };
  add_back(refused_backed, SpanState::kFreeBacked);
  add_back(refused_released, SpanState::kFreeReleased);
}

// AddressSpace: moves large objects that realloc cannot grow where they are. Where a copy would
// need fresh memory, it moves their pages in the page tables of the process instead.
//
// The new place is always a mapping of its own, which becomes the heap's when the move has
// succeeded: one that fails leaves a hole in the address space there (VirtualMemory::Move).
// Until then only this thread knows the place, and only its caller uses the object. Between the
// move and the moment when the new span is made under the lock, the contents are in no span:
// a thread that looks at all objects meanwhile would miss what they point to. So moves are counted
// from the decision, under the lock, to that moment, and a thread that holds the lock and sees one
// looks again later. Meanwhile other threads may only advise the kernel about hugepages around the
// old place. The kernel's advice moves with the pages, but it does not matter: the new place is
// advised and marked anew after the move.

bool AddressSpace::PlanMove(const Span& span, Length n, MovePlan* plan) {
  SpanStore& store = state_.store;
  const Governor::Held held = state_.Held();
  // A copy to a free and backed place costs no fresh memory. Memory that is not zero-filled may not
  // be private to the process.
  if (!span.zero_filled || n <= span.num_pages ||
      store.FindBackedPlace({.length = n, .alignment = granule_}).span != nullptr) {
    return false;
  }
  if (state_.hints.shortage.value() == AddressSpaceShortage::kNow) return false;
  // A move counts only when it is done: several at once could exceed a hard limit together.
  if (state_.governor.limits().hard_bytes != kNoLimit) return false;
  const GrowthDecision decision = state_.governor.DecideGrowth(held, n - span.num_pages, n, false);
  if (decision.action != GrowthDecision::Action::kGrow) return false;
  // The kernel moves whole page tables where both places begin at the same offset in a hugepage.
  const Length offset = span.first_page - HugepageStart(span.first_page);
  plan->hugepages = store.hugepages().Of(span.first_page).advised;
  plan->advise = state_.governor.has_hugepages();
  // A copy soon pays for itself where the added memory is then in hugepages.
  if (!plan->hugepages && state_.governor.GrowsInHugepages(held, n)) return false;
  plan->front = plan->advise ? offset : Length(0);
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
  return plan->moved >= kHugeObject && store.hugepages().AreAdvised(span.pages(), plan->hugepages);
}

bool AddressSpace::BeginMove(const Span* span, const void* p, Length n, MovePlan* plan) {
  bool begun = false;
  const auto begin = [&]() TC_REQUIRES(state_.lock) {
    // Each move in flight may still take one of those that are left.
    const size_t left = moves_left_.load(std::memory_order_relaxed);
    begun = state_.moves_in_flight < std::min(kMaxMovesAtOnce, left) && span->IsLargeAt(p) &&
            !span->has_small_object() && PlanMove(*span, n, plan);
    if (!begun) return;
    ++state_.moves_in_flight;
    *std::find(moving_threads_.begin(), moving_threads_.end(), 0u) = ThisThreadNumber();
  };
  return state_.WithRecords(begin) && begun;
}

Mapping AddressSpace::MapForMove(const Span& span, const MovePlan& plan) {
  const PageId from = span.first_page + plan.head;
  if (!vm_.MayMove(from.start_address(), plan.SampleBytes(granule_))) return {};
  return MapNew(plan.mapped, plan.advise ? kHugepageSize : granule_.bytes());
}

bool AddressSpace::MovePages(const Span& span, const MovePlan& plan, Mapping* mapping) {
  if (!mapping->zero_filled) return false;
  moves_left_.fetch_sub(1, std::memory_order_relaxed);
  const PageRange mapped = PagesOf(*mapping);
  const PageId place = mapped.first + plan.front;
  const PageId from = span.first_page + plan.head;
  const PageId to = place + plan.head;
  const bool may_move = vm_.MayMove(to.start_address(), plan.SampleBytes(granule_));
  if (!may_move || !vm_.Move(from.start_address(), plan.moved.bytes(), to.start_address(),
                             (mapped.end - to).bytes())) {
    // Another part of the process may have mapped memory at the new place by now.
    const PageRange left = {mapped.first, may_move ? to : mapped.end};
    if (left.bytes() > 0) static_cast<void>(vm_.Unmap(left.start_address(), left.bytes()));
    *mapping = {};
    return false;
  }
  if (plan.advise) vm_.AdviseHugepages(mapping->start, mapping->bytes, plan.hugepages);
  const Length rest = span.num_pages - plan.head - plan.moved;
  memcpy(place.start_address(), span.start_address(), plan.head.bytes());
  memcpy((to + plan.moved).start_address(), (from + plan.moved).start_address(), rest.bytes());
  return true;
}

Span* AddressSpace::ReplaceBy(Span* added, PageId place, const MovePlan& plan, Span* span, Length n,
                              void** sample, Length* freed) {
  SpanStore::Taken taken;
  state_.store.Take({.length = n, .now_ms = span->in_use.handed_out_ms},
                    {added, place - added->first_page}, &taken);
  taken.span->in_use.written = n;
  ++state_.store.counts.moves;
  static_cast<void>(span->TakeSample(sample));
  *freed = state_.governor.NoteFreed(span->num_pages - plan.moved);
  state_.store.DeleteMoved(span, plan.head, plan.moved);
  state_.NoteDemand(n);
  if (state_.governor.limits().any()) state_.governor.NoteGrown(state_.Held());
  return taken.span;
}

Span* AddressSpace::Move(Span* span, const void* p, Length n, void** sample, Length* freed) {
  MovePlan plan;
  if (!BeginMove(span, p, n, &plan)) return nullptr;
  Mapping mapping = MapForMove(*span, plan);
  const PageRange mapped = PagesOf(mapping);
  const bool moved = MovePages(*span, plan, &mapping);
  Span* fresh = nullptr;
  {
    const SpinLockHolder holder(state_.lock);
    --state_.moves_in_flight;
    *std::find(moving_threads_.begin(), moving_threads_.end(), ThisThreadNumber()) = 0;
    if (mapping.start == nullptr) return nullptr;
    // If nothing was moved, the mapping is of another kind, which a program's allocator has begun
    // to provide. It then serves other requests.
    Span* const added = AddMapping(mapping, plan.hugepages && moved);
    if (moved) fresh = ReplaceBy(added, mapped.first + plan.front, plan, span, n, sample, freed);
  }
  NotifyGrowth(mapped.length());
  return fresh;
}

}  // namespace tcmalloc
