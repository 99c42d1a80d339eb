// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: hands out spans and takes them back, gets memory from the OS and releases it. It is the
// interface of the page layer.
//
// Parts. SpanStore has all spans; Governor decides about limits, release and growth; AddressSpace
// calls the OS. PageHeap serves a request with them: it decides what to try in which order, and
// what to do after a free. One lock guards store and governor (PageState).
//
// Synchronization. LockRank::kPageHeap. Decisions are made under it; system calls happen outside.
//
// Cost. New and Delete: one lock, O(1) up to 128 pages, O(log n) above; a system call when the heap
// grows or a release is due. New and NewFromCache read the coarse clock: some nanoseconds where the
// kernel has a vDSO. At a memory limit (page_heap/memory_limit.h) New may also have to release
// memory, and at the hard limit to wait for releases of other threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "os/spinlock.h"
#include "page_heap/address_space.h"
#include "page_heap/hugepage.h"
#include "page_heap/page_state.h"
#include "page_heap/release_policy.h"

namespace tcmalloc {

// A part of a page heap, which holds the lock as long as it exists. It is a temporary of one
// expression, which must not lock the page heap a second time.
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
  // two. `keeper`: the home whose kept spans may serve a large object that is not aligned.
  Span* New(Length n, SpanState use, Length alignment = Length(1), SpanHome* keeper = nullptr);
  // A span for one sampled small object of class `c`, in state kLarge: see SampledObjects. Null
  // when the OS gives no memory.
  Span* NewSampled(SizeClass c);
  // A span for small objects of the shard that owns `home`, next to its other spans: see NearRun.
  // `history`: of the span's class, which has `num_spans` spans. It may be pre-faulted then.
  // Null also if there is no memory of the kind `memory`.
  Span* NewNear(Length n, SpanHome& home, size_t num_spans = 0, TouchHistory* history = nullptr,
                Memory memory = Memory::kAny);

  // Frees a span and the memory of its bitmap. May release free memory before it returns, as a rule
  // at most kReleaseSlice. Requires: the span is in use, its pages have no class in the page map,
  // no other thread deletes it.
  void Delete(Span* span);

  // Adds a home for the rest of this heap's life: see SpanHomes::Add.
  void AddHome(SpanHome& home) {
    home.pool.Attach(page_map_, state_.homes.count());
    state_.homes.Add(home);
  }
  // New and Delete for spans of small objects: an empty span of a shard is kept in the shard's home
  // for its next use, within a limit and unless memory is short (see SpanCache).
  // NewFromCache: up to `most` kept spans of exactly RoundUp(n) pages, which are not zeroed;
  // returns how many. Cost: the lock of the home's cache.
  size_t NewFromCache(Length n, SpanHome& home, Span** spans, size_t most);
  // `n` spans of equal length, n > 0. `same_shard`: a thread of that shard emptied them.
  void DeleteToCache(Span* const* spans, size_t n, SpanHome& home, bool same_shard);
  // Returns the kept spans to the free ones; returns their bytes. Of each home it takes at most as
  // many bytes as are kept when the home's turn comes, so it ends although other threads add more.
  size_t DrainSpanCaches();

  // Frees the large or sampled object at `p`, provided that it starts there and `span` is its span.
  // Else (a free of something else, or a second free) returns false and changes nothing. Safe for
  // any span record and any `p`. This and the next two take the object's sample out where they
  // succeed, into `*sample` unless `sample` is null: see Span::TakeSample. `keeper` may keep the
  // span for its next large object; null: none does.
  [[nodiscard]] bool DeleteLargeAt(Span* span, const void* p, void** sample = nullptr,
                                   SpanHome* keeper = nullptr);
  // Resizes the large object at `p`, in span `span`, to `n` pages (rounded) in place: takes from
  // the free memory after it, or frees its end. False, and nothing is changed, when there is not
  // enough, or when `span` is no such object, for example that of a sampled small one. The contents
  // of new pages are undefined.
  [[nodiscard]] bool ResizeLargeAt(Span* span, const void* p, Length n, void** sample = nullptr);
  // For an object that cannot grow to `n` pages in place: moves its pages to a mapping of their own
  // with room for `n` pages, and frees the old place. Returns the new span; null, and nothing is
  // changed, where a copy is better or the OS refuses. Requires: no thread uses the object
  // meanwhile.
  [[nodiscard]] Span* MoveLargeAt(Span* span, const void* p, Length n, void** sample = nullptr);

  // Releases free memory, at least `n` pages if there are as many; returns the number of pages.
  Length ReleaseAtLeast(Length n);
  // Makes one decision about release and releases what is due now, at most `most` pages, rounded;
  // returns the number of pages. Delete does this by itself, a slice at a time; other callers do it
  // for times when no thread frees.
  Length ReleaseDue(Length most);
  // To be called on slow paths, without locks. Where no thread runs idle release, this releases
  // a slice of what has become due, after a look at the clock.
  void ReleaseIdle() {
    const PageHints& hints = state_.hints;
    if (hints.unattended.value() && hints.release_later.value()) ReleaseIdleSlow();
  }
  // How much each cache and the page heap may keep now. Only the share of thread caches, and the
  // total, depend on the number of these. Racy.
  RetentionShares Shares(size_t thread_caches = 0) const {
    const PageHints& hints = state_.hints;
    return hints.retention.Shares(hints.in_use_bytes.value(), thread_caches,
                                  hints.retention.needs_time() ? now_ms_() : 0);
  }
  // Releases free memory until the heap is within its limits, if it can. To be called after a limit
  // was set.
  Length ReleaseAboveLimits();

  // Takes a free span of at least `*bytes` bytes for metadata, for good: when the OS has no
  // address space left, the heap's free memory may be the only memory left. Sets `*bytes` to the
  // span's bytes; null when no free span is long enough.
  void* TakeForMetadata(size_t* bytes);

  // The span length that serves a request of `n` pages: whole hardware pages.
  Length RoundUp(Length n) const {
    return Length((n.pages() + granule_.pages() - 1) & ~(granule_.pages() - 1));
  }

  // The parts, for their own functions: `page_heap.governor()->SetLimit(...)`.
  LockedPart<Governor> governor() TC_NO_THREAD_SAFETY_ANALYSIS {
    return {state_.lock, state_.governor};
  }
  LockedPart<const SpanStore> store() TC_NO_THREAD_SAFETY_ANALYSIS {
    return {state_.lock, state_.store};
  }
  AddressSpace& address_space() { return address_space_; }
  PageHints& hints() { return state_.hints; }

  const SampledObjects& sampled() const { return state_.sampled; }

  // All figures of one moment, except those of span caches and sampled objects.
  PageStats GetStats(FreeSpanCounts* lengths = nullptr);
  // The only lock besides those of the homes.
  SpinLock& lock() { return state_.lock; }

 private:
  using Request = SpanStore::Request;
  // What a request tries, the cheapest first. It enters a stage when no earlier one could serve it.
  enum class Stage : uint8_t {
    kBacked,    // backed free spans, and spans that are kept for shards
    kGrow,      // any free memory, and more from the OS
    kAnywhere,  // any place, also for a shard's request
    kDrained,   // after all kept spans were drained
    kUnmapped,  // after free memory was unmapped, to be mapped anew in one piece
  };
  // What a request has done because of limits.
  struct LimitPass {
    std::array<bool, kNumLimitKinds> met{};
    // The number of slices that had been released at the last decision.
    size_t releases = 0;
    // At the hard limit: how often memory was released, and the request had to decide again.
    size_t times_released = 0;
  };

  Span* Allocate(Request request) TC_EXCLUDES(state_.lock);
  // Finds a place and takes it, or returns a decision to make room. `*taken` has no span when there
  // is no place.
  GrowthDecision TryTake(const Request& request, bool backed_only, const LimitPass& pass,
                         SpanStore::Taken* taken) TC_REQUIRES(state_.lock);
  // Prepares the next try of a request that found no place. False when nothing is left to try.
  bool NextStage(Request& request, Stage& stage, size_t& may_drain_bytes);
  // Calls decide() under the lock: it acts on the store, or returns a decision to make room. Then
  // makes room and calls it again. False when there is no room, or no memory for records.
  template <typename Decide>
  bool WithinLimits(LimitPass& pass, Decide decide) TC_EXCLUDES(state_.lock);
  // Carries out the decision. False when the request fails.
  bool MakeRoom(const GrowthDecision& decision, LimitPass& pass) TC_EXCLUDES(state_.lock);

  // What follows on a free. `freed`: what Governor::NoteFreed returned.
  void ReleaseAfterFreeing(Length freed) TC_EXCLUDES(state_.lock);
  void ReleaseIdleSlow() TC_EXCLUDES(state_.lock);
  void ReleaseAboveSoftLimit() TC_EXCLUDES(state_.lock);

  // A kept span can be neither unmapped nor released.
  bool MayKeep() const {
    const PageHints& hints = state_.hints;
    return hints.shortage.value() != AddressSpaceShortage::kNow &&
           !hints.above_soft_limit.value() && hints.releasing.value() != Releasing::kEager;
  }
  // The most bytes that a home may keep of spans of one kind, where it keeps `own` bytes and
  // `more` are to be added: what the other kept spans leave of the share of kept spans. Rates above
  // 1 divide the share. In an unattended heap no thread would return them later.
  size_t MayKeepBytes(size_t own, size_t more) const {
    size_t share = Shares().kept_spans;
    if (state_.hints.unattended.value()) share = std::min(share, kUnattendedBytes);
    const double rate = state_.hints.release_rate.value();
    if (rate > 1) share = static_cast<size_t>(static_cast<double>(share) / rate);
    const bool passes_step = (own ^ (own + more)) >= kKeptSpansStep;
    if (!passes_step) return share;
    const size_t all = state_.homes.KeptBytes();
    return share - std::min(share, all - std::min(all, own));
  }
  // Lets the object grow to `n` pages into what follows it in its pool; false if it cannot.
  bool ExtendFromPool(Span* span, const void* p, Length n, void** sample);
  // DeleteLargeAt, into a pool.
  bool KeepLargeAt(Span* span, const void* p, void** sample, SpanPool& pool)
      TC_EXCLUDES(state_.lock);
  // Frees the pool's longest span, if more than `max_bytes` are kept and the span has at least `n`
  // pages; returns its bytes, else 0.
  size_t DeleteLongest(SpanPool& pool, size_t max_bytes = 0, Length n = Length(0))
      TC_EXCLUDES(state_.lock);
  // Takes the sample out of the claimed object, which is being freed.
  void TakeSample(Span* span, void** sample) {
    const SizeClass c = span->TakeSample(sample);
    if (__builtin_expect(c != SizeClass::kNone, false)) state_.sampled.Remove(c);
  }
  // Lowers the figures of large objects by those of sampled small objects.
  void SetSampledApart(PageStats* stats) const;
  // Records that the pool needs, or does not need.
  void AddRecords(SpanPool& pool) TC_EXCLUDES(state_.lock);
  void TakeRecords(SpanPool& pool) TC_EXCLUDES(state_.lock);
  // Returns a kept span of the home to the free ones; returns its bytes, 0 when there is none.
  size_t DrainOne(SpanHome& home);
  // Returns at most `most` kept spans to the free ones, those of the first home first; returns
  // their bytes.
  size_t Drain(size_t most);
  // Drains kept spans that may serve the request, which would else need unbacked memory; returns
  // their bytes, 0 when more would not help.
  size_t DrainFor(const Request& request);

  const Length granule_;  // pages of ours in a hardware page, at least 1
  int64_t (*const now_ms_)();
  const bool unmap_when_short_;
  // When ReleaseIdle last found nothing to release.
  Relaxed<int64_t> looked_ms_{0};
  PageMap& page_map_;
  PageState state_;
  AddressSpace address_space_;
};

// A release may become due though no thread is freeing.
bool IsReleasePending(PageHeap& heap);
// A request for `n` pages that failed may succeed when the caches above the heap are emptied.
bool MayFitAfterFlush(PageHeap& heap, Length n);

}  // namespace tcmalloc
