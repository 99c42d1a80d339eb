// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/page_heap.h"

#include <algorithm>

#include "base/compiler.h"
#include "base/config.h"
#include "base/tuned.h"
#include "page_heap/governor.h"
#include "page_heap/release_policy.h"
#include "page_heap/span_home.h"

namespace tcmalloc {

// While no thread runs idle release, slow paths look for memory to release at most once in this
// time. Not measured.
constexpr int64_t kLookEveryMs = Tuned(500, 10, kReleaseMemoryMs);
// The most slices that one allocation releases for the soft limit. If free memory lies in many
// short spans, a slice releases little and still costs a system call.
constexpr size_t kMaxSlicesForSoft = 32;
// How many times an allocation at the hard limit may find that other threads took the memory that
// was released, before it fails. Other threads make progress meanwhile, but an allocation larger
// than theirs could try forever.
constexpr size_t kMaxTimesTaken = 100;

PageHeap::PageHeap(VirtualMemory& vm, PageMap& page_map, MetadataArena& arena,
                   const PageHeapOptions& options)
    : granule_(Length::ForBytes(vm.hardware_page_size())),
      now_ms_(options.now_ms),
      unmap_when_short_(options.unmap_when_short),
      page_map_(page_map),
      state_(page_map, arena, granule_, options),
      address_space_(state_, vm, page_map, options) {}

template <typename Decide>
bool PageHeap::WithinLimits(LimitPass& pass, Decide decide) {
  for (;;) {
    GrowthDecision decision;
    const auto decide_once = [&]() TC_REQUIRES(state_.lock) {
      pass.releases = state_.store.counts.releases;
      decision = decide();
    };
    if (!state_.WithRecords(decide_once)) return false;
    if (decision.action == GrowthDecision::Action::kGrow) return true;
    if (!MakeRoom(decision, pass)) return false;
  }
}

TC_FAST_PATH GrowthDecision PageHeap::TryTake(const Request& request, bool backed_only,
                                              const LimitPass& pass, SpanStore::Taken* taken) {
  SpanStore& store = state_.store;
  const Length n = request.length;
  SpanStore::Place place = store.FindPlace(request, backed_only);
  Length fresh;
  if (state_.governor.limits().any() && (place.span != nullptr || !backed_only)) {
    fresh = place.span == nullptr ? n : store.FreshPages(place, n);
    GrowthDecision decision =
        state_.governor.DecideGrowth(state_.Held(), fresh, n, pass.met[Index(LimitKind::kSoft)]);
    if (decision.action != GrowthDecision::Action::kGrow) {
      decision.may_fail = !place.by_choice;
      if (decision.may_fail || !pass.met[Index(LimitKind::kHard)]) return decision;
      // There was no room for the better place: takes the backed one.
      place = store.FindBackedPlace(request);
      fresh = Length(0);
    }
  }
  if (place.span == nullptr) return {};
  const bool prefault =
      place.span->Is(SpanState::kFreeReleased) && state_.governor.Prefaults(request.need, n);
  Request chunk = request;
  if (request.chunk > n && !state_.governor.limits().any()) {
    chunk.length = std::clamp(place.span->num_pages - place.offset, n, request.chunk);
  }
  const Length unbacked = store.free(SpanStore::kReleased);
  store.Take(chunk, place, taken);
  // Hugepages are backed whole.
  taken->prefault = prefault && !store.hugepages().AreAdvised(*taken->span);
  // A released place that was chosen although there was a backed one does not count as demand: its
  // page faults cost no more than the choice saves.
  const Length faulted = taken->fresh ? unbacked - store.free(SpanStore::kReleased) : Length(0);
  state_.NoteDemand(faulted, request.now_ms);
  if (fresh > Length(0)) state_.governor.NoteGrown(state_.Held());
  return {};
}

Span* PageHeap::Allocate(Request request) {
  TC_ASSERT(request.length > Length(0));
  if (request.length > SpanStore::kMaxLength || request.alignment > SpanStore::kMaxLength) {
    return nullptr;
  }
  request.length = RoundUp(request.length);
  request.alignment = std::max(request.alignment, granule_);
  // Not under the lock: without a vDSO this is a system call.
  request.now_ms = now_ms_();
  // Spans that other threads add to the caches meanwhile do not count, so the loop ends.
  size_t may_drain_bytes = state_.homes.KeptBytes();
  const size_t left_bytes =
      request.chunk == Length(0) ? 0 : state_.hints.in_use_bytes.value() / kLeftToOthersPart;
  Stage stage = may_drain_bytes > left_bytes || request.memory != Memory::kAny ? Stage::kBacked
                                                                               : Stage::kGrow;
  LimitPass pass;
  do {
    SpanStore::Taken taken;
    const auto take = [&]() TC_REQUIRES(state_.lock) {
      request.in_hugepages = state_.governor.has_hugepages();
      return TryTake(request, stage == Stage::kBacked, pass, &taken);
    };
    if (!WithinLimits(pass, take)) return nullptr;
    if (taken.span != nullptr) {
      if (taken.prefault) address_space_.Prefault(taken.span->pages());
      return taken.span;
    }
  } while (NextStage(request, stage, may_drain_bytes));
  return nullptr;
}

Span* PageHeap::NewNear(Length n, SpanHome& home, size_t num_spans, TouchHistory* history,
                        Memory memory) {
  Request request = {.length = n, .use = SpanState::kSmall, .home = &home, .memory = memory};
  if (history == nullptr) return Allocate(request);
  n = RoundUp(n);
  request.need = history->NeedOf(
      num_spans, n, [this](PageRange range) { return address_space_.BackedBytes(range); });
  Span* const span = Allocate(request);
  // It is not known who touched memory that was in use before.
  if (span != nullptr && TouchHistory::IsTrial(num_spans) && span->zeroed()) {
    history->NoteTrial(span->first_page);
  }
  return span;
}

bool PageHeap::NextStage(Request& request, Stage& stage, size_t& may_drain_bytes) {
  const Length n = request.length;
  if (stage == Stage::kBacked) {
    const size_t drained = may_drain_bytes > 0 ? DrainFor(request) : 0;
    may_drain_bytes -= std::min(drained, may_drain_bytes);
    if (drained > 0 && (may_drain_bytes > 0 || request.memory == Memory::kBacked)) return true;
    stage = Stage::kGrow;
    return request.memory == Memory::kAny;
  }
  if (address_space_.Grow(n, request.alignment)) return true;
  if (stage == Stage::kGrow) {
    stage = Stage::kAnywhere;
    if (request.home != nullptr) {
      request.home = nullptr;
      return true;
    }
  }
  if (stage == Stage::kAnywhere) {
    stage = Stage::kDrained;
    if (DrainSpanCaches() > 0) return true;
  }
  // There may be enough free memory, but not in one piece, and a limit on address space (RLIMIT_AS)
  // counts all of it. A request for more than the heap ever had would fail nevertheless.
  if (stage == Stage::kUnmapped || !unmap_when_short_ ||
      n.bytes() > store()->counts.peak_system_bytes) {
    return false;
  }
  stage = Stage::kUnmapped;
  address_space_.UnmapAtLeast(n + request.alignment + Length::ForBytes(PageMap::leaf_bytes()),
                              kMaxRefusals);
  return true;
}

void PageHeap::Delete(Span* span) {
  if (span->free_bits != nullptr) {
    if (span->free_bits != &span->inline_bits) {
      state_.arena.Free(span->free_bits, span->bits_words * sizeof(uint64_t));
    }
    span->free_bits = nullptr;
  }
  Length freed;
  {
    const SpinLockHolder holder(state_.lock);
    freed = state_.governor.NoteFreed(span->num_pages);
    state_.store.Delete(span);
  }
  ReleaseAfterFreeing(freed);
}

bool PageHeap::ResizeLargeAt(Span* span, const void* p, Length n, void** sample) {
  if (n == Length(0) || n > SpanStore::kMaxLength) return false;
  n = RoundUp(n);
  bool done = false;
  Length freed;
  LimitPass pass;
  if (ExtendFromPool(span, p, n, sample)) return true;
  const auto resize_claimed = [&]() TC_REQUIRES(state_.lock) -> GrowthDecision {
    const Length old = span->num_pages;
    Length fresh;
    if (n > old) {
      if (!state_.store.CanExtend(*span, n - old, &fresh)) return {};
      const GrowthDecision decision = state_.governor.DecideGrowth(
          state_.Held(), fresh, n - old, pass.met[Index(LimitKind::kSoft)]);
      if (decision.action != GrowthDecision::Action::kGrow) return decision;
    } else if (n < old) {
      freed = state_.governor.NoteFreed(old - n);
    }
    state_.store.Resize(span, n);
    if (n > old) state_.NoteDemand(fresh);
    if (fresh > Length(0)) state_.governor.NoteGrown(state_.Held());
    static_cast<void>(span->TakeSample(sample));
    done = true;
    return {};
  };
  const auto resize = [&]() TC_REQUIRES(state_.lock) -> GrowthDecision {
    if (!span->ClaimLargeAt(p)) return {};
    const GrowthDecision decision = span->has_small_object() ? GrowthDecision() : resize_claimed();
    span->ReturnClaim();
    return decision;
  };
  if (!WithinLimits(pass, resize) || !done) return false;
  ReleaseAfterFreeing(freed);
  return true;
}

Span* PageHeap::MoveLargeAt(Span* span, const void* p, Length n, void** sample) {
  if (n > SpanStore::kMaxLength) return nullptr;
  Length freed;
  Span* const moved = address_space_.Move(span, p, RoundUp(n), sample, &freed);
  if (moved != nullptr) ReleaseAfterFreeing(freed);
  return moved;
}

TC_SLOW_PATH void* PageHeap::TakeForMetadata(size_t* bytes) {
  const Length n = RoundUp(Length::ForBytes(*bytes));
  do {
    const SpinLockHolder holder(state_.lock);
    Span* const span = state_.store.TakeForMetadata(n, state_.MayTakeRecords(0));
    if (span == nullptr) continue;
    *bytes = span->bytes();
    return span->start_address();
  } while (Drain(1) > 0);
  return nullptr;
}

void PageHeap::ReleaseAfterFreeing(Length freed) {
  if (hints().releasing.value() == Releasing::kEager) {
    // Only memory that was freed since the last release is still backed.
    address_space_.Release({.length = SpanStore::kMaxLength});
  } else if (freed > Length(0)) {
    ReleaseDue(kReleaseSlice);
  }
  if (hints().near_soft_limit.value()) ReleaseAboveSoftLimit();
  if (hints().shortage.value() != AddressSpaceShortage::kNone) address_space_.UnmapWhenShort();
  const auto observer =
      freed > Length(0) ? hints().free_observer.load(std::memory_order_acquire) : nullptr;
  if (observer != nullptr) observer();
}

TC_SLOW_PATH void PageHeap::ReleaseIdleSlow() {
  const int64_t now_ms = now_ms_();
  if (now_ms - looked_ms_.value() < kLookEveryMs) return;
  // Slice by slice, one in each call, so that no call takes long.
  if (ReleaseDue(kReleaseSlice) == Length(0)) looked_ms_.Set(now_ms);
}

TC_SLOW_PATH void PageHeap::ReleaseAboveSoftLimit() {
  ReleasePlan plan;
  {
    const SpinLockHolder holder(state_.lock);
    plan = state_.governor.DecideSoftRelease(state_.Held());
  }
  if (plan.length == Length(0)) return;
  const Length released = address_space_.Release(plan);
  const SpinLockHolder holder(state_.lock);
  state_.governor.NoteSoftRelease(state_.Held(), released);
}

TC_SLOW_PATH bool PageHeap::MakeRoom(const GrowthDecision& decision, LimitPass& pass) {
  using Action = GrowthDecision::Action;
  const bool soft = decision.action == Action::kReleaseThenGrow;
  const LimitKind kind = soft ? LimitKind::kSoft : LimitKind::kHard;
  const Length wanted = Length::ForBytes(decision.release_bytes);
  Length released;
  if (soft) {
    released = address_space_.Release({.length = wanted, .max_slices = kMaxSlicesForSoft});
  } else if (decision.action != Action::kFail) {
    released = ReleaseAtLeast(wanted);
  }
  {
    const SpinLockHolder holder(state_.lock);
    LimitWatch::Counts& counts = state_.governor.limit_watch().counts(kind);
    counts.hits += !pass.met[Index(kind)];
    counts.released_bytes += released.bytes();
  }
  pass.met[Index(kind)] = true;
  if (soft || !decision.may_fail) return true;
  if (decision.action != Action::kFail &&
      (released > Length(0) || address_space_.WaitForRelease(pass.releases)) &&
      ++pass.times_released <= kMaxTimesTaken) {
    return true;
  }
  state_.hints.hard_limit_refusals.Add(1);
  return false;
}

TC_SLOW_PATH Length PageHeap::ReleaseAboveLimits() {
  Length total;
  for (const LimitKind kind : {LimitKind::kHard, LimitKind::kSoft}) {
    size_t excess;
    {
      const SpinLockHolder holder(state_.lock);
      MemoryLimits limits = state_.governor.limits();
      excess = LimitExcess(limits.of(kind), state_.Held().backed_bytes, 0);
    }
    if (excess == 0) continue;
    const Length released = ReleaseAtLeast(Length::ForBytes(excess));
    total += released;
    governor()->limit_watch().counts(kind).released_bytes += released.bytes();
  }
  return total;
}

TC_SLOW_PATH bool MayFitAfterFlush(PageHeap& heap, Length n) {
  const size_t hard_bytes = heap.governor()->limits().hard_bytes;
  return (hard_bytes != kNoLimit && n.bytes() <= hard_bytes) ||
         n.bytes() <= heap.store()->counts.system_bytes;
}

bool IsReleasePending(PageHeap& heap) {
  return heap.hints().release_rate.value() > 0 &&
         heap.hints().releasing.value() != Releasing::kNever &&
         heap.store()->free(SpanStore::kBacked) > Length::ForBytes(heap.Shares().free_pages);
}

Length PageHeap::ReleaseAtLeast(Length n) {
  DrainSpanCaches();
  return address_space_.Release({.length = n, .max_refusals = SIZE_MAX});
}

Length PageHeap::ReleaseDue(Length most) {
  const int64_t now_ms = now_ms_();
  ReleasePlan plan;
  {
    const SpinLockHolder holder(state_.lock);
    plan = state_.governor.DecideRelease(now_ms, state_.Held(), most);
  }
  if (plan.length == Length(0)) return Length(0);
  const Length released = address_space_.Release(plan);
  if (released > plan.length) governor()->NoteReleasedMore(released - plan.length);
  return released;
}

void PageHeap::SetSampledApart(PageStats* stats) const {
  if (state_.sampled.all() == 0) return;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const size_t objects = state_.sampled.of_class(c);
    stats->sampled_objects += objects;
    stats->sampled_bytes += objects * kSizeClasses.size(c);
    stats->sampled_span_bytes += objects * RoundUp(Length::ForBytes(kSizeClasses.size(c))).bytes();
  }
  // Objects may have been allocated and freed meanwhile: no figure may exceed the one that it is a
  // part of.
  stats->sampled_objects = std::min(stats->sampled_objects, stats->large_spans);
  stats->sampled_span_bytes = std::min(stats->sampled_span_bytes, stats->large_span_bytes);
  stats->sampled_bytes = std::min(stats->sampled_bytes, stats->sampled_span_bytes);
  stats->large_spans -= stats->sampled_objects;
  stats->large_span_bytes -= stats->sampled_span_bytes;
}

PageStats PageHeap::GetStats(FreeSpanCounts* lengths) {
  PageStats stats;
  {
    const SpinLockHolder holder(state_.lock);
    static_cast<PageCounts&>(stats) = state_.store.counts;
    state_.store.AddFree(&stats, lengths);
    size_t small_bytes = 0;
    size_t large_bytes = 0;
    size_t hidden = 0;
    state_.homes.ForEach([&](const SpanHome& home) {
      small_bytes += home.kept.bytes();
      large_bytes += home.pool.bytes();
      hidden += home.pool.hidden();
    });
    // A span that leaves one home and enters another one meanwhile may be counted twice.
    small_bytes = std::min(small_bytes, stats.small_span_bytes);
    large_bytes = std::min(large_bytes, stats.large_span_bytes);
    stats.small_span_bytes -= small_bytes;
    stats.large_span_bytes -= large_bytes;
    stats.kept_span_bytes = small_bytes + large_bytes;
    // Also negative, as the number of a pool's hidden objects: see SpanPool.
    const auto large_spans = static_cast<ptrdiff_t>(stats.large_spans - hidden);
    stats.large_spans = static_cast<size_t>(std::max<ptrdiff_t>(large_spans, 0));
    stats.free_backed_bytes += stats.kept_span_bytes;
    stats.backed_bytes = state_.Held().backed_bytes;
    stats.hugepages = state_.governor.hugepages();
    stats.limits = state_.governor.limits();
    stats.hard_limit = state_.governor.limit_watch().counts(LimitKind::kHard);
    stats.soft_limit = state_.governor.limit_watch().counts(LimitKind::kSoft);
  }
  SetSampledApart(&stats);
  if (lengths != nullptr) {
    state_.homes.ForEach([lengths](SpanHome& home) { home.pool.AddTo(lengths); });
  }
  return stats;
}

}  // namespace tcmalloc
