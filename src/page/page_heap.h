// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: hands out spans, takes them back, gets memory from the OS and releases it. The layers
// above know the page layer by it.
//
// Parts. SpanStore knows all spans; Governor decides about limits, release and growth; AddressSpace
// calls the OS. PageHeap does one request with them: what is tried in which order, and what follows
// on a free. One lock guards store and governor (PageState).
//
// Synchronization. LockRank::kPageHeap. Decisions are made under it; system calls happen outside.
//
// Cost. New and Delete: one lock, O(1) up to 128 pages, O(log n) above; New reads the coarse clock,
// some nanoseconds where the kernel has a vDSO, as does NewFromCache; a system call when the heap
// grows or when it is time to release something. Near a memory limit (page/memory_limit.h) New may
// also have to release something, and at the hard limit to wait for what others are releasing at
// that moment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "os/spinlock.h"
#include "page/address_space.h"
#include "page/page_state.h"

namespace tcmalloc {

// A part of a page heap, with the lock held as long as this exists: to the end of the expression
// that it is in, which must not lock the page heap a second time.
template <typename Part>
class LockedPart {
 public:
  LockedPart(SpinLock& lock, Part& part) TC_NO_THREAD_SAFETY_ANALYSIS : lock_(lock), part_(part) {
    lock_.Lock();
  }
  LockedPart(const LockedPart&) = delete;
  LockedPart& operator=(const LockedPart&) = delete;
  ~LockedPart() TC_NO_THREAD_SAFETY_ANALYSIS { lock_.Unlock(); }
  Part* operator->() const { return &part_; }

 private:
  SpinLock& lock_;
  Part& part_;
};

class PageHeap {
 public:
  PageHeap(VirtualMemory& vm, PageMap& page_map, MetadataArena& arena,
           const PageHeapOptions& options = PageHeapOptions());

  // A span of at least `n` pages in state `use` (kSmall or kLarge), its first page at a multiple of
  // `alignment` pages; nullptr when the OS gives no memory. Requires: n > 0, alignment a power of
  // two.
  Span* New(Length n, SpanState use, Length alignment = Length(1)) {
    return Allocate({.length = n, .alignment = alignment, .use = use});
  }
  // The same for small objects of the shard whose home it is, next to its others: see NearRun. What
  // is needed whole may be pre-faulted: see hugepage_policy::PrefaultStep.
  Span* NewNear(Length n, SpanHome& home,
                hugepage_policy::Need need = hugepage_policy::Need::kUnknown) {
    return Allocate({.length = n, .use = SpanState::kSmall, .home = &home, .need = need});
  }

  // Takes a span back, and the memory of its bitmap. May release memory of some span before it
  // returns, at most Tuning::Release::slice. Requires: the span is in use, its pages have no class
  // in the page map, no one else deletes it.
  void Delete(Span* span);

  // Makes a home known, for as long as this heap lives: see SpanHomes::Add.
  void AddHome(SpanHome& home) { state_.homes.Add(home); }
  // The same pair for spans of small objects: a span that a shard emptied a moment ago is kept in
  // its home for its next use, as long as it is not much and nobody else is short (see SpanCache).
  // `same_shard`: a thread of that shard emptied it.
  // NewFromCache: a span of exactly RoundUp(n) pages out of what is kept, which is not zeroed; null
  // when there is none. Cost: the lock of the home's cache.
  Span* NewFromCache(Length n, SpanHome& home);
  void DeleteToCache(Span* span, SpanHome& home, bool same_shard);
  // Takes back all that is kept so; returns its bytes.
  size_t DrainSpanCaches() { return Drain(SIZE_MAX); }

  // The same for the large object at `p`, provided that `span` is one and starts there; false, and
  // nothing is changed, when it is not (a free of something else, or a second one). Safe for any
  // span record and any `p`. This and the next two take the object's sample out (Span::TakeSample)
  // where they succeed: it is set, to null where there was none, when it is asked for.
  [[nodiscard]] bool DeleteLargeAt(Span* span, const void* p, void** sample = nullptr);
  // Makes the large object at `p`, whose span `span` is, `n` pages long (rounded) where it is:
  // takes from the free memory after it, or frees its own end. False, and nothing is changed,
  // when there is not enough, or when `span` is no such object. What is new has undefined contents.
  [[nodiscard]] bool ResizeLargeAt(Span* span, const void* p, Length n, void** sample = nullptr);
  // For an object that cannot become `n` pages long where it is: moves its pages to a mapping of
  // their own, behind which there is room for as many, and frees where it was. The new span; null,
  // and nothing is changed, where copying is better or the OS refuses. Requires: nobody uses the
  // object meanwhile.
  [[nodiscard]] Span* MoveLargeAt(Span* span, const void* p, Length n, void** sample = nullptr);

  // Releases free memory until at least `n` pages went or nothing is left; returns what went.
  Length ReleaseAtLeast(Length n);
  // Releases what is due by now, at most `most` pages but for rounding, in one decision; returns
  // what went. Delete does this by itself, a slice at a time; other callers do it for times when no
  // thread frees. With `idle`, empty spans kept for the shards go to the free ones before.
  Length ReleaseDue(Length most, bool idle);
  // Something may become due though nobody frees anything. Racy.
  bool release_pending() const TC_NO_THREAD_SAFETY_ANALYSIS {
    return state_.hints.releases_by_rate.value() &&
           state_.hints.releasing.value() != Releasing::kNever &&
           state_.store.free(SpanStore::kBacked) > Length::ForBytes(Shares().free_pages);
  }
  // What each tier may keep now. Racy.
  RetentionShares Shares() const {
    const PageHints& hints = state_.hints;
    return hints.retention.Shares(hints.in_use_bytes.value(),
                                  hints.retention.needs_time() ? now_ms_() : 0);
  }
  // Releases what is free above the limits. To be called after one was set.
  Length ReleaseAboveLimits();
  // A request for `n` pages that failed may succeed when caches above this heap are emptied.
  bool MayFitAfterFlush(Length n);

  // Gives a free span away for good, for records of the allocator's own: when the OS has no address
  // space left, what is free here may be all of it. At least `*bytes` bytes, which is set to what
  // it is; null when no free span is long enough.
  void* TakeForMetadata(size_t* bytes);

  // By value, so that no code reads it from memory.
  static constexpr Length kReleaseSlice = kTuning.release.slice;
  // The span length that serves a request of `n` pages: whole hardware pages.
  Length RoundUp(Length n) const {
    return Length((n.pages() + granule_.pages() - 1) & ~(granule_.pages() - 1));
  }

  // The parts, for what is theirs to answer: `page_heap.governor()->SetLimit(...)`.
  LockedPart<Governor> governor() TC_NO_THREAD_SAFETY_ANALYSIS {
    return {state_.lock, state_.governor};
  }
  LockedPart<const SpanStore> store() TC_NO_THREAD_SAFETY_ANALYSIS {
    return {state_.lock, state_.store};
  }
  AddressSpace& address_space() { return address_space_; }
  PageHints& hints() { return state_.hints; }

  // All figures as they were at one moment, span caches apart.
  PageStats GetStats(FreeSpanCounts* lengths = nullptr);
  // Aborts when an invariant does not hold. Walks all spans.
  void CheckInvariants() { store()->CheckInvariants(); }
  // Calls f(lock) for every lock, in the order of the ranks.
  template <typename F>
  void ForEachLock(F f) {
    state_.homes.ForEach([&f](SpanHome& home) { f(home.kept.lock()); });
    f(state_.lock);
  }

 private:
  using Request = SpanStore::Request;
  // What a request has tried, from the cheapest on. Each stage is for a request that all stages
  // before it could not serve.
  enum class Stage : uint8_t {
    kBacked,    // free spans that are backed, with what is kept for shards
    kGrow,      // any free memory, and more from the OS
    kAnywhere,  // for a shard, as for no shard: wherever it fits
    kDrained,   // with all that is kept
    kUnmapped,  // with free memory mapped anew, in one piece
  };
  // What a request has been through because of limits.
  struct LimitPass {
    std::array<bool, kNumLimitKinds> met{};
    // How many slices had been released when it was last decided.
    size_t releases = 0;
    // At the hard limit: how often something was released since.
    size_t times_released = 0;
  };

  Span* Allocate(Request request) TC_EXCLUDES(state_.lock);
  // Finds and takes, or asks for room. `*taken` stays without a span when there is no place.
  GrowthDecision TryTake(const Request& request, bool backed_only, const LimitPass& pass,
                         SpanStore::Taken* taken) TC_REQUIRES(state_.lock);
  // Makes a request that found no place try more. False when nothing is left to try.
  bool NextStage(Request& request, Stage& stage, size_t& may_drain_bytes);
  // Calls decide() under the lock, which acts on the store or asks for room; makes room where it
  // asks for it, and calls it again. False when there is none, or no memory for records.
  template <typename Decide>
  bool WithinLimits(LimitPass& pass, Decide decide) TC_EXCLUDES(state_.lock);
  // Does what the decision asks for. False when the request fails.
  bool MakeRoom(const GrowthDecision& decision, LimitPass& pass) TC_EXCLUDES(state_.lock);

  // What follows on a free, where `time_to_decide` says what Governor::NoteFreed returned.
  void ReleaseAfterFreeing(bool time_to_decide) TC_EXCLUDES(state_.lock);
  // Releases what is due, at most a slice; in a prompt heap in proportion to what was freed.
  void ReleaseFreed() TC_EXCLUDES(state_.lock);
  void ReleaseAboveSoftLimit() TC_EXCLUDES(state_.lock);

  // What one home may keep.
  size_t KeptBytesPerHome() const {
    return std::min(Shares().kept_spans / std::max<size_t>(state_.homes.count(), 1),
                    kTuning.span_cache.max_bytes);
  }
  // Takes back at most `most` spans that are kept for shards; returns their bytes.
  size_t Drain(size_t most);
  // Takes back of it what may serve a request that would else be served by memory that is not there
  // yet; returns the bytes, 0 when nothing more is worth it.
  size_t DrainFor(const Request& request);

  const Length granule_;  // pages of ours in a hardware page, at least 1
  int64_t (*const now_ms_)();
  const bool unmap_when_short_;
  PageState state_;
  AddressSpace address_space_;
};

}  // namespace tcmalloc
