// SPDX-License-Identifier: BSD-3-Clause
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
#include <algorithm>
#include <cstring>

#include "page_heap/address_space.h"
#include "page_heap/hugepage.h"

namespace tcmalloc {

bool AddressSpace::PlanMove(const Span& span, Length n, MovePlan* plan) {
  SpanStore& store = state_.store;
  const Governor::Held held = state_.Held();
  // A copy to a free and backed place costs no fresh memory. Memory that is not zero-filled may not
  // be private to the process.
  if (!span.zero_filled || n <= span.num_pages ||
      store.FindBackedPlace({.length = n, .alignment = granule_}).span != nullptr) {
    return false;
  }
  if (state_.hints.address_space_is_short.value()) return false;
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

Span* AddressSpace::Move(Span* span, const void* p, Length n, void** sample, Length* freed) {
  if (moves_left_.load(std::memory_order_relaxed) == 0) return nullptr;
  MovePlan plan;
  bool begun = false;
  const auto begin = [&]() TC_REQUIRES(state_.lock) {
    begun = state_.moves_in_flight < kMaxMovesAtOnce && span->IsLargeAt(p) &&
            !span->has_small_object() && PlanMove(*span, n, &plan);
    if (!begun) return;
    ++state_.moves_in_flight;
    *std::find(moving_threads_.begin(), moving_threads_.end(), 0u) = ThisThreadNumber();
  };
  if (!state_.WithRecords(begin) || !begun) return nullptr;
  const PageId from = span->first_page + plan.head;
  const size_t sample_bytes = plan.hugepages ? kHugepageSize : granule_.bytes();
  Mapping mapping;
  if (vm_.MayMove(from.start_address(), sample_bytes)) {
    mapping = MapNew(plan.mapped, plan.advise ? kHugepageSize : granule_.bytes());
  }
  const PageId first = PageId::Containing(mapping.start);
  const PageId end = first + Length(mapping.bytes >> kPageShift);
  const PageId place = first + plan.front;
  const PageId to = place + plan.head;
  bool moved = false;
  if (mapping.zero_filled) {
    moves_left_.fetch_sub(1, std::memory_order_relaxed);
    const bool may_move = vm_.MayMove(to.start_address(), sample_bytes);
    moved = may_move && vm_.Move(from.start_address(), plan.moved.bytes(), to.start_address(),
                                 (end - to).bytes());
    if (!moved) {
      // Another part of the process may have mapped memory at the new place by now.
      const PageRange left = {first, may_move ? to : end};
      if (left.bytes() > 0) static_cast<void>(vm_.Unmap(left.start_address(), left.bytes()));
      mapping = {};
    }
  }
  if (moved) {
    if (plan.advise) vm_.AdviseHugepages(mapping.start, mapping.bytes, plan.hugepages);
    const Length rest = span->num_pages - plan.head - plan.moved;
    memcpy(place.start_address(), p, plan.head.bytes());
    memcpy((to + plan.moved).start_address(), (from + plan.moved).start_address(), rest.bytes());
  }
  Span* fresh = nullptr;
  {
    const SpinLockHolder holder(state_.lock);
    --state_.moves_in_flight;
    *std::find(moving_threads_.begin(), moving_threads_.end(), ThisThreadNumber()) = 0;
    if (mapping.start == nullptr) return nullptr;
    // Without a move: the mapping is of another kind, which a program's allocator has begun to
    // provide. It serves other requests.
    Span* const added = AddMapping(mapping, plan.hugepages && moved);
    if (moved) {
      SpanStore::Taken taken;
      state_.store.Take({.length = n, .now_ms = span->in_use.handed_out_ms},
                        {added, place - added->first_page}, &taken);
      fresh = taken.span;
      fresh->in_use.written = n;
      ++state_.store.counts.moves;
      static_cast<void>(span->TakeSample(sample));
      *freed = state_.governor.NoteFreed(span->num_pages - plan.moved);
      state_.store.DeleteMoved(span, plan.head, plan.moved);
      state_.NoteDemand(n);
      if (state_.governor.limits().any()) state_.governor.NoteGrown(state_.Held());
    }
  }
  NotifyGrowth(end - first);
  return fresh;
}

}  // namespace tcmalloc
