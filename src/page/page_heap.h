// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: hands out spans, takes them back, joins free neighbours, gets memory from the system
// and gives it back.
//
// Role. Best fit among spans with memory behind them, then among released ones, then growth. A free
// span is joined with free neighbours of the same state, so that no two neighbouring spans are both
// free and mapped or both released. Zero-filled memory from the system arrives as released: it has
// nothing behind it yet. Other memory arrives as mapped. Whether what is released reads as zeroes
// is known of each span, since memory may come from several places.
//
// Invariants
//   P1  Every page that came from the system is in exactly one span.
//   P2  Neighbouring free spans differ in state.
//   P3  free_[kMapped] and free_[kReleased] hold exactly the spans of state kFreeMapped and
//       kFreeReleased.
//   P4  Every span starts at, and is as long as, a multiple of the hardware page where that is
//       larger than ours.
//
// Synchronization. LockRank::kPageHeap. Decisions are made under it; system calls (growth, release)
// happen outside. A span whose memory is being given back is in state kReleasing and in
// `in_flight_`, or in `refused_` until the end of the pass that the system refused it to, so that a
// forked child finds it.
//
// Cost. New and Delete: one lock, O(1) up to 128 pages, O(log n) above; a system call when the heap
// grows or when it is time to give something back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/counters.h"
#include "base/intrusive_list.h"
#include "base/shard_map.h"
#include "base/units.h"
#include "os/spinlock.h"
#include "os/virtual_memory.h"
#include "page/free_spans.h"
#include "page/metadata_arena.h"
#include "page/page_map.h"
#include "page/release_pace.h"
#include "page/span.h"
#include "page/span_cache.h"

namespace tcmalloc {

class PageHeap {
 public:
  // What the pages of the heap are used for, in bytes. mapped = the sum of the others.
  struct Stats {
    size_t system_bytes = 0;       // all that came from the system
    size_t free_mapped_bytes = 0;  // with what is in span caches
    size_t free_released_bytes = 0;
    size_t releasing_bytes = 0;
    size_t small_span_bytes = 0;
    size_t large_span_bytes = 0;
    size_t metadata_span_bytes = 0;  // see TakeForMetadata
    size_t free_mapped_spans = 0;
    size_t free_released_spans = 0;
    size_t large_spans = 0;
    size_t growths = 0;   // mappings made
    size_t releases = 0;  // slices given back
    size_t released_total_bytes = 0;
  };

  struct Options {
    // When the system has no address space left (RLIMIT_AS), free memory is unmapped: to be mapped
    // anew in one piece where a request is longer than any free span, and for others where more
    // than half of the heap is free. Each unmapping may split a mapping of the system's.
    bool unmap_when_short = false;
  };

  PageHeap(VirtualMemory& vm, PageMap& page_map, MetadataArena& arena)
      : PageHeap(vm, page_map, arena, Options()) {}
  PageHeap(VirtualMemory& vm, PageMap& page_map, MetadataArena& arena, const Options& options);

  // A span of at least `n` pages in state `use` (kSmall or kLarge), its first page at a multiple of
  // `alignment` pages; nullptr when the system gives no memory. Requires: n > 0, alignment a power
  // of two.
  Span* New(Length n, SpanState use) TC_EXCLUDES(lock_) { return NewAligned(n, Length(1), use); }
  Span* NewAligned(Length n, Length alignment, SpanState use) TC_EXCLUDES(lock_) {
    return Allocate({.length = n, .alignment = alignment, .use = use});
  }
  // The same for small objects of a shard, next to its others: see kNearRun.
  Span* NewNear(Length n, size_t shard) TC_EXCLUDES(lock_) {
    return Allocate({.length = n, .use = SpanState::kSmall, .shard = shard});
  }

  // Takes a span back, and the memory of its bitmap. May give memory of some span back to the
  // system before it returns, at most kReleaseSlice. Requires: the span is in use, its pages have
  // no class in the page map, no one else deletes it.
  void Delete(Span* span) TC_EXCLUDES(lock_);

  // The same pair for spans of small objects: what `shard` gave back a moment ago is kept for its
  // next use, as long as it is not much and nobody else is short (see SpanCache). NewFromCache: a
  // span of exactly RoundUp(n) pages out of what is kept, which is not zeroed; null when there is
  // none. Cost: a lock of the shard's.
  Span* NewFromCache(Length n, size_t shard);
  void DeleteToCache(Span* span, size_t shard, bool near) TC_EXCLUDES(lock_);

  // Takes back all that is kept so.
  void DrainSpanCaches() TC_EXCLUDES(lock_);

  // The same for the large object at `p`, provided that `span` is one and starts there; false, and
  // nothing is changed, when it is not (a free of something else, or a second one). Safe for any
  // span record and any `p`.
  [[nodiscard]] bool DeleteLargeAt(Span* span, const void* p) TC_EXCLUDES(lock_);

  // Makes the large object at `p`, whose span `span` is, `n` pages long (rounded) where it is:
  // takes from the free memory behind it, or gives its own end back. False, and nothing is changed,
  // when there is not enough, or when `span` is no such object. What is new has undefined contents.
  [[nodiscard]] bool ResizeLargeAt(Span* span, const void* p, Length n) TC_EXCLUDES(lock_);

  // Gives free memory back to the system until at least `n` pages went or nothing is left; returns
  // what went. The lock is not held meanwhile. Memory that the system does not take (mlock) stays
  // mapped and does not keep other memory from going.
  Length ReleaseAtLeast(Length n) TC_EXCLUDES(lock_);

  // Gives a free span away for good, for records of the allocator's own: when the system has no
  // address space left, what is free here may be all of it. At least `*bytes` bytes, which is set
  // to what it is; null when no free span is long enough.
  void* TakeForMetadata(size_t* bytes) TC_EXCLUDES(lock_);

  // How eagerly Delete gives memory back: see ReleasePace. 0 never.
  void SetReleaseRate(double rate) TC_EXCLUDES(lock_);
  double release_rate() TC_EXCLUDES(lock_);

  // The page came from the system through this heap.
  bool Owns(PageId page) TC_EXCLUDES(lock_);

  Stats GetStats() TC_EXCLUDES(lock_);

  // Aborts when an invariant does not hold. Walks all spans.
  void CheckInvariants() TC_EXCLUDES(lock_);

  // The span length that serves a request of `n` pages: whole hardware pages.
  Length RoundUp(Length n) const {
    return Length((n.pages() + granule_.pages() - 1) & ~(granule_.pages() - 1));
  }

  // Calls f(lock) for every lock, in the order of the ranks.
  template <typename F>
  void ForEachLock(F f) {
    for (SpanCache& cache : span_caches_) f(cache.lock());
    f(lock_);
  }
  // In a forked child, with the lock held by this thread: spans that another thread was releasing
  // are free again.
  void RestoreAfterForkInChild();

  // The most that is given back in one system call, unless there is no memory for the record of a
  // longer span's rest.
  static constexpr Length kReleaseSlice = Length((size_t{8} << 20) >> kPageShift);

 private:
  enum FreeKind { kMapped, kReleased, kNumFreeKinds };

  // A stretch of address space from the system; contiguous ones are joined.
  struct Region {
    PageId first;
    Length length;
    Region* next = nullptr;
  };

  // So often may the system refuse before Delete gives up: about 20 us of failing calls.
  static constexpr size_t kMaxRefusalsAtPace = 64;
  // Records that the longest operation under the lock may use: a split at both ends.
  static constexpr size_t kRecordsPerOperation = 2;
  // Records that no other operation uses up, so that TakeForMetadata can split a span to get memory
  // for more.
  static constexpr size_t kSpareRecords = 1;

  // Spans of one shard follow each other in memory, as far as there is room for this much. Why: a
  // processor fetches what follows on what it reads, past the end of a span. Where that is memory
  // in which another processor works, it costs that one: two threads that each swept their half of
  // 6 MiB, in blocks that took turns, without a common last level of cache, took 6 ns for each line
  // of a block of 32 KiB, 3.6 ns with 64 KiB, 1.9 ns with 256 KiB or more.
  static constexpr Length kNearRun = Length((size_t{256} << 10) >> kPageShift);
  static constexpr size_t kNoShard = kMaxShards;
  static constexpr size_t kDrainedAtOnce = 32;

  struct Request {
    Length length;
    Length alignment = Length(1);
    SpanState use;
    size_t shard = kNoShard;
  };
  // Where in a free span, if there is one.
  struct Place {
    Span* span = nullptr;
    Length offset = Length(0);
  };

  Span* Allocate(Request request) TC_EXCLUDES(lock_);
  // Finds and cuts; null when no free span is long enough. With `mapped_only`, among those that may
  // have memory behind them.
  Span* AllocateLocked(const Request& request, bool mapped_only) TC_REQUIRES(lock_);
  // For a shard: near, else the tightest fit in which no other one goes on.
  Place FindPlaceLocked(const Request& request, FreeKind kind) TC_REQUIRES(lock_);
  // Behind the shard's last span, else in a run that no other shard goes on in.
  Place FindNearLocked(Length n, size_t shard, FreeKind kind) TC_REQUIRES(lock_);
  // The tightest fit in which no other shard goes on (of equals one is looked at); null when there
  // is none.
  Span* FindRunLocked(Length n, size_t shard, FreeKind kind) const TC_REQUIRES(lock_);
  // Another shard's last span ends where this one begins.
  bool OtherShardGoesOnIn(const Span* span, size_t shard) const TC_REQUIRES(lock_);
  // Cuts `span`, which is in no list, so that it keeps its first `n` pages; the rest, of the same
  // state, is returned.
  Span* SplitLocked(Span* span, Length n) TC_REQUIRES(lock_);
  // True when it is time to give something back, which the caller does with ReleaseAtPace after
  // unlocking.
  [[nodiscard]] bool DeleteLocked(Span* span) TC_REQUIRES(lock_);
  [[nodiscard]] bool PagesFreedLocked(Length n) TC_REQUIRES(lock_);
  bool IsLargeAt(const Span* span, const void* p) const TC_REQUIRES(lock_) {
    return span->state.load(std::memory_order_relaxed) == SpanState::kLarge &&
           span->start_address() == p;
  }
  // Takes `more` pages from the free spans that follow `span`; false when there are not as many.
  bool ExtendLocked(Span* span, Length more) TC_REQUIRES(lock_);
  // The free span that begins at `page`, or null.
  Span* FreeSpanAtLocked(PageId page) TC_REQUIRES(lock_);
  void ReleaseAtPace() TC_EXCLUDES(lock_);
  // Joins `span`, which is in no list and in state kFreeMapped or kFreeReleased, with its
  // neighbours and lists it.
  void InsertFreeLocked(Span* span) TC_REQUIRES(lock_);
  Span* FreeNeighbourLocked(PageId page, SpanState state) TC_REQUIRES(lock_);
  FreeSpans& FreeSpansFor(SpanState state) TC_REQUIRES(lock_) {
    return free_[state == SpanState::kFreeReleased ? kReleased : kMapped];
  }
  OwnedCounter& BytesInUse(SpanState use) {
    return use == SpanState::kSmall ? small_span_bytes_ : large_span_bytes_;
  }
  void MarkEnds(Span* span);
  void* TryTakeForMetadata(size_t* bytes) TC_EXCLUDES(lock_);
  // Takes back one span out of a span cache, or out of any; returns its bytes, 0 when there is
  // none.
  size_t DrainOneSpanOf(SpanCache& cache) TC_EXCLUDES(lock_);
  size_t DrainOneSpan() TC_EXCLUDES(lock_);
  // Takes back of what is kept in span caches what may serve a request that would else be served by
  // memory that is not there yet; returns the bytes, 0 when nothing more is worth it. Of other
  // shards' several at once: one at a time would mix the shards' memory span by span (see
  // kNearRun).
  size_t DrainFor(const Request& request) TC_EXCLUDES(lock_);
  size_t SpanCacheBytes() const;
  Length FreePages() TC_EXCLUDES(lock_);
  // No request for more pages can be helped by giving back or unmapping what is free.
  Length MostThatMayFit() TC_EXCLUDES(lock_);

  Span* TakeRecordLocked() TC_REQUIRES(lock_);
  // The same, without touching the spare ones; null when there is no memory for more.
  Span* TakeRecord() TC_EXCLUDES(lock_);
  void ReturnRecordLocked(Span* span) TC_REQUIRES(lock_);
  bool AddRecords() TC_EXCLUDES(lock_);

  bool Grow(Length n, Length alignment) TC_EXCLUDES(lock_);
  bool GrowBy(Length n) TC_EXCLUDES(lock_);
  // Returns the records of old regions that it was joined with, to be freed.
  Region* AddRegionLocked(Region* region) TC_REQUIRES(lock_);

  // Gives back at least `at_least` pages and at most `at_most`, but for rounding, slice by slice,
  // the longest spans first, until nothing is left or the system refused `max_refusals` slices.
  // Returns what went.
  Length ReleasePass(Length at_least, Length at_most, size_t max_refusals) TC_EXCLUDES(lock_);
  // Takes a free span out of its region; `spare` becomes the record of what is behind it, where
  // there is something. Returns the records that are not needed, to be freed.
  Region* RemoveRegionLocked(PageId first, Length n, Region* spare) TC_REQUIRES(lock_);
  void FreeRegions(Region* regions) TC_EXCLUDES(lock_);
  Span* FindLongestFreeLocked() TC_REQUIRES(lock_);
  // Once the system has refused a mapping, what is free is no longer kept when it is more than half
  // of the heap: others need address space too, for example for the stacks of threads.
  void UnmapWhenShort() TC_EXCLUDES(lock_);
  // Takes free spans out of the address space, the longest first, until at least `n` pages went.
  void UnmapAtLeast(Length n) TC_EXCLUDES(lock_);
  // Puts such a span back, in the state that it had.
  void AddSpan(Span* span, SpanState state) TC_EXCLUDES(lock_);

  // What came of one slice; of no pages when there was nothing to give.
  struct SliceResult {
    Length length;
    bool released = false;
  };
  // Gives back one slice of at most `limit` pages. When the system refuses it, it stays in
  // refused_.
  SliceResult ReleaseSlice(Length limit) TC_EXCLUDES(lock_);
  // Takes the spans of a list, which are in state kReleasing, back among the free ones.
  void RestoreLocked(IntrusiveList<Span>& spans) TC_REQUIRES(lock_);

  // Constant after construction.
  VirtualMemory& vm_;
  PageMap& page_map_;
  MetadataArena& arena_;
  const Options options_;
  const Length granule_;  // pages of ours in a hardware page, at least 1

  std::array<SpanCache, kMaxShards> span_caches_;

  SpinLock lock_{LockRank::kPageHeap};
  std::array<FreeSpans, kNumFreeKinds> free_ TC_GUARDED_BY(lock_);
  // Where each shard's last new span ends.
  std::array<PageId, kMaxShards> near_ends_ TC_GUARDED_BY(lock_) = {};
  IntrusiveList<Span> records_ TC_GUARDED_BY(lock_);
  size_t num_records_ TC_GUARDED_BY(lock_) = 0;
  Region* regions_ TC_GUARDED_BY(lock_) = nullptr;
  IntrusiveList<Span> in_flight_ TC_GUARDED_BY(lock_);
  // Set aside so that a pass does not meet them again. Of all passes: the first to end ends it for
  // the others too.
  IntrusiveList<Span> refused_ TC_GUARDED_BY(lock_);
  ReleasePace release_pace_ TC_GUARDED_BY(lock_);

  // Set for good by whoever is refused a mapping; decides when to unmap, nothing else, so relaxed
  // suffices.
  std::atomic<bool> address_space_is_short_{false};

  // Written with lock_ held; read racily for statistics.
  OwnedCounter system_bytes_;
  OwnedCounter peak_system_bytes_;
  OwnedCounter releasing_bytes_;
  OwnedCounter small_span_bytes_;
  OwnedCounter large_span_bytes_;
  OwnedCounter metadata_span_bytes_;
  OwnedCounter large_spans_;
  OwnedCounter growths_;
  OwnedCounter releases_;
  OwnedCounter released_total_bytes_;
};

}  // namespace tcmalloc
