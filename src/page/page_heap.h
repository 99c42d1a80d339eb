// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: hands out spans, takes them back, joins free neighbours, gets memory from the system
// and gives it back.
//
// Role. Best fit among spans with memory behind them, then among released ones and among runs of
// free neighbours of both states (see FindFreshPlaceLocked), then growth. A free span is joined
// with free neighbours of the same state, so that no two neighbouring spans are both free and
// mapped or both released; those that differ are found as one run (page/free_runs.h). Zero-filled
// memory from the system arrives as released: it has nothing behind it yet. Other memory arrives as
// mapped. Whether what is released reads as zeroes is known of each span, since memory may come
// from several places.
//
// Hugepages (see hugepage.h). A heap that is large enough grows by whole hugepages and asks the
// system for them. Short spans go where hugepages are in use already, of equals to the fullest;
// whole free ones are kept for long spans, and are what is given back first.
//
// Invariants
//   P1  Every page that came from the system is in exactly one span.
//   P2  Neighbouring free spans differ in state.
//   P3  free_[kMapped] and free_[kReleased] hold exactly the spans of state kFreeMapped and
//       kFreeReleased.
//   P4  Every span starts at, and is as long as, a multiple of the hardware page where that is
//       larger than ours.
//   P5  A Hugepage's counts are those of the pages of its spans.
//   P6  free_runs_ holds exactly the longest possible runs of two free spans or more (F1, F2).
//
// Synchronization. LockRank::kPageHeap. Decisions are made under it; system calls (growth, release)
// happen outside. A span whose memory is being given back is in state kReleasing and in
// `in_flight_`, or in `refused_` until the end of the pass that the system refused it to, so that a
// forked child finds it.
//
// Cost. New and Delete: one lock, O(1) up to 128 pages, O(log n) above; New reads the coarse clock,
// some nanoseconds where the kernel has a vDSO, as does NewFromCache; a system call when the heap
// grows or when it is time to give something back. Near a memory limit (page/memory_limit.h) New
// may also have to give something back, and at the hard limit to wait for what others are giving
// back at that moment.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/config.h"
#include "base/counters.h"
#include "base/intrusive_list.h"
#include "base/tuning.h"
#include "base/units.h"
#include "os/clock.h"
#include "os/hugepages.h"
#include "os/spinlock.h"
#include "os/virtual_memory.h"
#include "page/free_runs.h"
#include "page/free_spans.h"
#include "page/hugepage_policy.h"
#include "page/limit_watch.h"
#include "page/memory_limit.h"
#include "page/metadata_arena.h"
#include "page/near_run.h"
#include "page/page_map.h"
#include "page/release_policy.h"
#include "page/space_policy.h"
#include "page/span.h"
#include "page/span_home.h"

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
    size_t commits = 0;  // times that memory was put behind released pages
    // Of free memory that was taken out of the address space: all, and what had memory behind it.
    size_t unmapped_total_bytes = 0;
    size_t unmapped_backed_bytes = 0;
    HugepageSetting hugepages;
    size_t hugepage_bytes = 0;    // where hugepages were asked for
    size_t hugepages_broken = 0;  // slices given back of hugepages partly in use
    size_t populations = 0;       // see PopulateStep
    size_t moves = 0;             // see MoveLargeAt
    MemoryLimits limits;
    LimitWatch::Counts hard_limit;
    LimitWatch::Counts soft_limit;
  };

  // How many free spans there are of each length, span caches included: the sum of their bytes is
  // free_mapped_bytes and free_released_bytes.
  struct FreeSpanCounts {
    struct Count {
      uint32_t mapped = 0;
      uint32_t released = 0;
    };
    std::array<Count, FreeSpans::kMaxExactPages> exact;  // exact[i]: of i + 1 pages
    // Longer ones.
    Count longer;
    size_t longer_mapped_bytes = 0;
    size_t longer_released_bytes = 0;
  };

  struct Options {
    // When the system has no address space left (RLIMIT_AS), free memory is unmapped: to be mapped
    // anew in one piece where a request is longer than any free span, and for others where more
    // than half of the heap is free. Each unmapping may split a mapping of the system's.
    bool unmap_when_short = false;
    // With this much in use the heap grows by hugepages.
    Length hugepage_threshold = Length(kTuning.hugepages.threshold.pages());
    // See SavesSpace.
    Length spare_space = Length(kTuning.placement.spare_space.pages());
    // The time, as ReleasePolicy and Span::in_use are to see it.
    int64_t (*now_ms)() = &CoarseMilliseconds;
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
  using Need = hugepage_policy::Need;
  // The same for small objects of the shard whose home it is, next to its others: see NearRun. What
  // is needed whole may have memory put behind it at once: see hugepage_policy::PopulateStep.
  Span* NewNear(Length n, SpanHome& home, Need need = Need::kUnknown) TC_EXCLUDES(lock_) {
    return Allocate({.length = n, .use = SpanState::kSmall, .home = &home, .need = need});
  }

  // Makes a home known, for as long as this heap lives. Requires: nobody adds another one
  // meanwhile; `home` was not added before.
  void AddHome(SpanHome& home) {
    home.next = homes_.load(std::memory_order_relaxed);
    homes_.store(&home, std::memory_order_release);
  }

  // Takes a span back, and the memory of its bitmap. May give memory of some span back to the
  // system before it returns, at most Tuning::Release::slice. Requires: the span is in use, its
  // pages have no class in the page map, no one else deletes it.
  void Delete(Span* span) TC_EXCLUDES(lock_);

  // The same pair for spans of small objects: what a shard gave back a moment ago is kept in its
  // home for its next use, as long as it is not much and nobody else is short (see SpanCache).
  // NewFromCache: a span of exactly RoundUp(n) pages out of what is kept, which is not zeroed; null
  // when there is none. Cost: the lock of the home's cache.
  Span* NewFromCache(Length n, SpanHome& home);
  void DeleteToCache(Span* span, SpanHome& home, bool near) TC_EXCLUDES(lock_);

  // Takes back all that is kept so; returns its bytes.
  size_t DrainSpanCaches() TC_EXCLUDES(lock_);

  // The same for the large object at `p`, provided that `span` is one and starts there; false, and
  // nothing is changed, when it is not (a free of something else, or a second one). Safe for any
  // span record and any `p`. This and the next two take the object's sample out (Span::TakeSample)
  // where they succeed: it is set, to null where there was none, when it is asked for.
  [[nodiscard]] bool DeleteLargeAt(Span* span, const void* p, void** sample = nullptr)
      TC_EXCLUDES(lock_);

  // Makes the large object at `p`, whose span `span` is, `n` pages long (rounded) where it is:
  // takes from the free memory behind it, or gives its own end back. False, and nothing is changed,
  // when there is not enough, or when `span` is no such object. What is new has undefined contents.
  [[nodiscard]] bool ResizeLargeAt(Span* span, const void* p, Length n, void** sample = nullptr)
      TC_EXCLUDES(lock_);

  // For an object that cannot become `n` pages long where it is: moves its pages to a mapping of
  // their own, behind which there is room for as many, and frees where it was. The new span; null,
  // and nothing is changed, where copying is better or the system refuses. Requires: nobody uses
  // the object meanwhile.
  [[nodiscard]] Span* MoveLargeAt(Span* span, const void* p, Length n, void** sample = nullptr)
      TC_EXCLUDES(lock_);

  // Gives free memory back to the system until at least `n` pages went or nothing is left; returns
  // what went. The lock is not held meanwhile. Memory that the system does not take (mlock) stays
  // mapped and does not keep other memory from going.
  Length ReleaseAtLeast(Length n) TC_EXCLUDES(lock_);

  // Gives a free span away for good, for records of the allocator's own: when the system has no
  // address space left, what is free here may be all of it. At least `*bytes` bytes, which is set
  // to what it is; null when no free span is long enough.
  void* TakeForMetadata(size_t* bytes) TC_EXCLUDES(lock_);

  // How eagerly memory goes back by itself: see ReleasePolicy. 0 never.
  void SetReleaseRate(double rate) TC_EXCLUDES(lock_);
  double release_rate() TC_EXCLUDES(lock_);
  // Whether no thread runs idle release. More is released then while the program frees. At first
  // false.
  void SetPromptRelease(bool prompt) { is_prompt_.store(prompt, std::memory_order_relaxed); }

  // Gives back what is due by now, at most `most` pages but for rounding, in one decision; returns
  // what went. Delete does this by itself, a slice at a time; who else calls it does so for times
  // when nobody frees. With `idle`, empty spans kept for the shards go to the free ones before.
  Length ReleaseDue(Length most, bool idle) TC_EXCLUDES(lock_);
  // Something may become due though nobody frees anything. Racy.
  bool release_pending() const TC_NO_THREAD_SAFETY_ANALYSIS {
    return release_rate_is_positive_.load(std::memory_order_relaxed) &&
           releasing_.load(std::memory_order_relaxed) != Releasing::kNever &&
           free_[kMapped].total() > kTuning.release.slack;
  }

  // Called after each Tuning::Release::look_every pages that are freed, by the thread that frees,
  // without locks. Null for none. It must not allocate or free.
  void SetFreeObserver(void (*observer)()) {
    free_observer_.store(observer, std::memory_order_release);
  }

  // With kEager every span that is given back is released at once; with kNever nothing is, whatever
  // is asked.
  enum class Releasing : uint8_t { kByPolicy, kEager, kNever };
  void SetReleasing(Releasing releasing) { releasing_.store(releasing, std::memory_order_relaxed); }
  Releasing releasing() const { return releasing_.load(std::memory_order_relaxed); }

  // The system is to make no hugepages around `page`, which is to be given back while others of its
  // hugepage stay in use: khugepaged would make it whole again (unless its max_ptes_none is 0), and
  // so would the first write to any other page of it that was never written to. In blocks of
  // Tuning::Hugepages::stopped_at_once, because each may cost two mappings. `hole`: the page
  // belongs to a span in use; they are made again no sooner than when nothing of the hugepage is in
  // use any more.
  void StopHugepagesAt(PageId page, bool hole) TC_EXCLUDES(lock_);
  // Called whenever memory has come from the system, with its bytes, by the thread that needed it,
  // without locks. Null for no one.
  void SetGrowthObserver(void (*observer)(size_t bytes)) {
    growth_observer_.store(observer, std::memory_order_release);
  }

  // What the system does about hugepages. Before that the heap behaves as if there were none.
  void SetHugepages(const HugepageSetting& setting) TC_EXCLUDES(lock_);
  // The same from the heap's second growth on: a small program runs as if there were no hugepages.
  void SetHugepagesAfterFirstGrowth(const HugepageSetting& setting) TC_EXCLUDES(lock_);
  // Limits on BackedBytes(), kNoLimit for none. Who sets one gives back what is free above it
  // before the function returns.
  // kProgram: for good. kContainer: unless the program has set one of this kind.
  enum class LimitOrigin : uint8_t { kProgram, kContainer };
  void SetLimit(LimitKind kind, size_t bytes, LimitOrigin origin = LimitOrigin::kProgram)
      TC_EXCLUDES(lock_);
  size_t limit(LimitKind kind) TC_EXCLUDES(lock_);
  Length ReleaseAboveLimits() TC_EXCLUDES(lock_);
  // What may have memory behind it, records included.
  size_t BackedBytes() TC_EXCLUDES(lock_);
  // A request for `n` pages that failed may succeed when caches above this heap are emptied.
  bool MayFitAfterFlush(Length n) TC_EXCLUDES(lock_);

  // Null for none. The callback is called by those who take events.
  void SetLimitCallback(LimitCallback callback, void* context) TC_EXCLUDES(lock_);
  // The soft limit's event is due. Racy.
  bool limit_event_due() const { return limit_event_due_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool TakeSoftLimitEvent(LimitEvent* event) TC_EXCLUDES(lock_);
  // How often the hard limit made New return null; and what to tell when it was the last word.
  size_t hard_limit_refusals() const { return hard_limit_refusals_.value(); }
  [[nodiscard]] bool HardLimitEvent(LimitEvent* event) TC_EXCLUDES(lock_);

  // The clock by which spans say when they were handed out.
  int64_t now_ms() const { return options_.now_ms(); }

  // The page came from the system through this heap.
  bool Owns(PageId page) TC_EXCLUDES(lock_);

  // The first stretch of address space that came from the system and reaches behind `page`: sets
  // [*first, *end) to what of it is not in front of `page`. False when there is none.
  bool FindRegion(PageId page, PageId* first, PageId* end) TC_EXCLUDES(lock_);

  // Both as they were at one moment, span caches apart.
  Stats GetStats(FreeSpanCounts* counts = nullptr) TC_EXCLUDES(lock_);

  // What ListSpans tells of a span.
  struct SpanView {
    const Span* span = nullptr;
    PageId first_page;
    Length num_pages;
    SpanState state = SpanState::kUnused;
    // In use for small objects, else kNone: also when it is kept in a span cache.
    SizeClass size_class = SizeClass::kNone;
  };
  // The spans in order of their addresses, from the first that ends behind `from` on, `n` at most;
  // returns how many. Those of later calls may have changed meanwhile. Cost: a walk over the
  // regions and a step per span, with the lock held; when the last call's end is no boundary any
  // more, over all spans of its region in front of it.
  size_t ListSpans(PageId from, SpanView* views, size_t n) TC_EXCLUDES(lock_);

  // Aborts when an invariant does not hold. Walks all spans.
  void CheckInvariants() TC_EXCLUDES(lock_);

  // The span length that serves a request of `n` pages: whole hardware pages.
  Length RoundUp(Length n) const {
    return Length((n.pages() + granule_.pages() - 1) & ~(granule_.pages() - 1));
  }

  // Calls f(lock) for every lock, in the order of the ranks.
  template <typename F>
  void ForEachLock(F f) {
    ForEachHome([&f](SpanHome& home) { f(home.kept.lock()); });
    f(lock_);
  }
  // Some thread is in MoveLargeAt: an object may have lost its pages to a place that no span knows
  // yet. With the lock held none begins.
  bool is_moving() const TC_NO_THREAD_SAFETY_ANALYSIS { return moves_in_flight_ > 0; }
  // In a forked child, with the lock held by this thread: spans that another thread was releasing
  // are free again, and what one was moving is moving no longer.
  void RestoreAfterForkInChild();

  // By value, so that no code reads it from memory.
  static constexpr Length kReleaseSlice = kTuning.release.slice;

 private:
  enum FreeKind { kMapped, kReleased, kNumFreeKinds };

  // A stretch of address space from the system; contiguous ones are joined.
  struct Region {
    PageId first;
    Length length;
    Region* next = nullptr;
  };

  // More than any machine has, and little enough to be added to.
  static constexpr Length kMaxLength = Length((SIZE_MAX >> 1) >> kPageShift);
  // Records that the longest operation under the lock may use: see CarveLocked.
  static constexpr size_t kRecordsPerOperation = 4;
  static constexpr size_t kStoppedRemembered = 64;
  // Records that no other operation uses up, so that TakeForMetadata can cut the beginning off a
  // span to get memory for more.
  static constexpr size_t kSpareRecords = 2;

  struct Request {
    Length length;
    Length alignment = Length(1);
    SpanState use;
    SpanHome* home = nullptr;  // null: not for a shard
    Need need = Need::kUnknown;
    int64_t now_ms = 0;
  };
  // Where in a free span, if there is one. What does not fit into the span is in the free spans
  // that follow on it.
  struct Place {
    Span* span = nullptr;
    Length offset = Length(0);
    // It takes fresh memory although there is a place that does not.
    bool by_choice = false;
  };
  struct PageRange {
    PageId first;
    PageId end;
    size_t bytes() const { return (end - first).bytes(); }
  };

  // What one request has been through because of limits.
  struct LimitPass {
    GrowthDecision decision;
    bool soft_served = false;
    bool hard_counted = false;
    // There is a place that takes no fresh memory, for which it is tried to make room elsewhere
    // once.
    bool mapped_fits = false;
    bool tried_instead = false;
    // How many slices had been given back when it was decided.
    size_t releases = 0;
    // At the hard limit: how often something went since.
    size_t times_went = 0;

    bool needs_room() const { return decision.action != GrowthDecision::Action::kGrow; }
  };

  Span* Allocate(Request request) TC_EXCLUDES(lock_);
  // Finds and takes; null when there is no place, and when a limit asks for room first.
  Span* AllocateWithinLimitsLocked(const Request& request, bool mapped_only, LimitPass& pass,
                                   PageRange* populate) TC_REQUIRES(lock_);
  // What gets memory behind it with `n` pages at `place`, hugepages included.
  Length FreshPagesAtLocked(const Place& place, Length n) TC_REQUIRES(lock_);
  // The same for ExtendLocked.
  bool ExtendWithinLimitsLocked(Span* span, Length more, LimitPass& pass) TC_REQUIRES(lock_);
  // Does what the decision asks for. False when the request fails.
  bool MakeRoom(LimitPass& pass) TC_EXCLUDES(lock_);
  bool FailAtHardLimit() TC_EXCLUDES(lock_);
  // True as soon as more slices have been given back than `releases`, by whichever thread: at once,
  // or when one of those that are under way now is done. False when none of these came to anything.
  bool WaitForRelease(size_t releases) TC_EXCLUDES(lock_);
  bool IsUnderWayLocked(uint64_t last_release) const TC_REQUIRES(lock_);
  // `fresh` pages of the `n` that are wanted have nothing behind them.
  bool NeedsRoomLocked(Length fresh, Length n, LimitPass& pass) TC_REQUIRES(lock_);
  void NoteGrownLocked() TC_REQUIRES(lock_);
  void LookAtSoftLimitLocked() TC_REQUIRES(lock_);
  size_t BackedBytesLocked() const TC_REQUIRES(lock_);
  // Above the soft limit: gives back at most a slice of what is free, when there is enough of it.
  void ReleaseWhenAboveSoftLimit() TC_EXCLUDES(lock_);
  void CountLimitRelease(LimitKind kind, Length released) TC_EXCLUDES(lock_);
  // Takes the place for the request; null when there is none. Sets `*populate` to what is to have
  // memory put behind it at once.
  Span* AllocateLocked(const Request& request, const Place& place, PageRange* populate)
      TC_REQUIRES(lock_);
  // Takes [first, first + n) out of the free `span`. What else of it gets memory behind it with
  // these pages becomes kFreeMapped: the rest of hugepages, and what lies in the same blocks of
  // `step` pages. `*backed` is all that gets it. The pages are not yet counted as in use. At most
  // five pieces: four records.
  Span* CarveLocked(Span* span, PageId first, Length n, Length step, PageRange* backed)
      TC_REQUIRES(lock_);
  PageRange BackedWithLocked(const Span& span, PageId page, Length step) TC_REQUIRES(lock_);
  // Takes `n` pages at `place`, which may go through several free spans, as one span in use, for
  // its caller to say which use. Sets `written`, and `*fresh` when some of it had nothing behind
  // it. At most four records.
  Span* TakePlaceLocked(const Place& place, Length n, bool* fresh) TC_REQUIRES(lock_);
  // P5.
  void CountUsedLocked(PageId first, Length n, bool used) TC_REQUIRES(lock_);
  void CountReleasedLocked(PageId first, Length n, bool released) TC_REQUIRES(lock_);
  void MarkAdvisedLocked(PageId first, Length n, bool advised) TC_REQUIRES(lock_);
  template <typename F>
  void ForEachHugepageLocked(PageId first, Length n, F f) TC_REQUIRES(lock_);
  bool IsAdvisedLocked(const Span& span) TC_REQUIRES(lock_) {
    return page_map_.HugepageOf(span.first_page).advised &&
           page_map_.HugepageOf(span.last_page()).advised;
  }
  // Of equals the one in the fullest hugepage.
  Span* FullestOfEqualLocked(Span* span, FreeKind kind) TC_REQUIRES(lock_);
  Length InUseLocked() const TC_REQUIRES(lock_) {
    return Length((system_bytes_.value() - releasing_bytes_.value()) >> kPageShift) -
           free_[kMapped].total() - free_[kReleased].total();
  }
  bool GrowsInHugepagesLocked(Length request) const TC_REQUIRES(lock_) {
    return hugepage_policy::GrowInHugepages(hugepages_.mode, InUseLocked() + free_[kMapped].total(),
                                            request, options_.hugepage_threshold);
  }
  // More is in use. Where fresh memory was needed, what is free was needed too: none of it was long
  // enough.
  void RecordDemandLocked(bool fresh, int64_t now_ms = 0) TC_REQUIRES(lock_) {
    const Length in_use = InUseLocked();
    if (in_use > most_in_use_) most_in_use_ = in_use;
    release_policy_.Demand(in_use, fresh ? free_[kMapped].total() : Length(0), now_ms);
  }
  // The part of a free span that is given back in one slice; null when there is none, or none
  // without breaking hugepages that are partly in use.
  struct Releasable {
    Span* span = nullptr;
    PageRange range;
  };
  Releasable FindReleasableLocked(Length limit, bool may_break) TC_REQUIRES(lock_);
  // Giving `range` back takes a part of the hugepage that `page` is in.
  bool BreaksLocked(const PageRange& range, PageId page) TC_REQUIRES(lock_);
  // It is to make them again where it was told so and where none are broken any more: either all of
  // one was given back, or all of it was taken again, and there are no holes in it.
  void ResumeHugepages() TC_EXCLUDES(lock_);
  void Populate(const PageRange& range) TC_EXCLUDES(lock_);
  // For a home: near, else the tightest fit in which no other one goes on.
  Place FindPlaceLocked(const Request& request, FreeKind kind) TC_REQUIRES(lock_);
  // With `mapped_only`, none where all that fits has to have memory put behind it.
  Place FindBestPlaceLocked(const Request& request, bool mapped_only) TC_REQUIRES(lock_);
  // Where no free span with memory behind it is long enough: in a released one, or in a run of
  // several.
  Place FindFreshPlaceLocked(const Request& request) TC_REQUIRES(lock_);
  // In the shortest run that is long enough: at that end where more has memory behind it.
  Place FindInRunLocked(const Request& request) TC_REQUIRES(lock_);
  // The length of all free memory around a free span.
  Length FreeAroundLocked(const Span* span) const TC_REQUIRES(lock_) {
    return span->in_run ? free_runs_.RunOf(span).length() : span->num_pages;
  }
  // Behind the home's last span, else in a run that no other home goes on in.
  Place FindNearLocked(Length n, const SpanHome& home, FreeKind kind) TC_REQUIRES(lock_);
  // The tightest fit in which no other home goes on (of equals one is looked at); null when there
  // is none.
  Span* FindRunLocked(Length n, const SpanHome& home, FreeKind kind) const TC_REQUIRES(lock_);
  // Another home's last span ends where this one begins.
  bool OtherHomeGoesOnIn(const Span* span, const SpanHome& home) const TC_REQUIRES(lock_);
  // Cuts `span`, which is in no list, so that it keeps its first `n` pages; the rest, of the same
  // state, is returned.
  Span* SplitLocked(Span* span, Length n) TC_REQUIRES(lock_);
  // True when it is time to think about giving something back, which the caller does with
  // ReleaseAfterFreeing after unlocking.
  [[nodiscard]] bool DeleteLocked(Span* span) TC_REQUIRES(lock_);
  [[nodiscard]] bool PagesFreedLocked(Length n) TC_REQUIRES(lock_);
  bool IsLargeAt(const Span* span, const void* p) const TC_REQUIRES(lock_) {
    return span->state.load(std::memory_order_relaxed) == SpanState::kLarge &&
           span->start_address() == p;
  }
  // There are `more` free pages behind `span`; of them, `*released` have no memory.
  bool MayExtendLocked(const Span* span, Length more, Length* released) TC_REQUIRES(lock_);
  // Takes them. Requires: they are there.
  void ExtendLocked(Span* span, Length more) TC_REQUIRES(lock_);
  // The free span that begins at `page`, or null.
  Span* FreeSpanAtLocked(PageId page) TC_REQUIRES(lock_);
  // What Delete does behind its lock, where `decide` says what PagesFreedLocked returned.
  void ReleaseAfterFreeing(bool decide) TC_EXCLUDES(lock_);
  // Releases what is due, at most a slice; in a prompt heap in proportion to what was freed.
  void ReleaseFreed() TC_EXCLUDES(lock_);
  // What of an object goes where. In the order of the addresses, the old place has a head, which is
  // copied, what is moved, and the rest, which is copied; the new mapping has `front` free pages,
  // then the same. Hugepages are moved whole.
  struct MovePlan {
    bool hugepages;
    Length front;
    Length head;
    Length moved;
    Length mapped;
  };
  bool PlanMoveLocked(const Span& span, Length n, MovePlan* plan) TC_REQUIRES(lock_);
  bool IsAdvisedAllOverLocked(PageId first, Length n, bool advised) TC_REQUIRES(lock_);
  // Frees a span in use, of which [head, head + moved) has nothing behind it any more.
  [[nodiscard]] bool DeleteMovedLocked(Span* span, Length head, Length moved) TC_REQUIRES(lock_);
  // Joins `span`, which is in no list and in state kFreeMapped or kFreeReleased, with its
  // neighbours and lists it.
  void InsertFreeLocked(Span* span) TC_REQUIRES(lock_);
  // Takes a free span out of the lists. Until it has another state it must not be a neighbour of
  // what is inserted.
  void RemoveFreeLocked(Span* span) TC_REQUIRES(lock_);
  // The free span that `page` is the first or the last of; null when there is none.
  Span* FreeNeighbourLocked(PageId page) TC_REQUIRES(lock_);
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
  // homes' several at once: one at a time would mix the shards' memory span by span (see NearRun).
  size_t DrainFor(const Request& request) TC_EXCLUDES(lock_);
  size_t SpanCacheBytes() const;
  template <typename F>
  void ForEachHome(F f) const {
    SpanHome* home = homes_.load(std::memory_order_acquire);
    for (; home != nullptr; home = home->next) f(*home);
  }
  void CountFreeSpansLocked(FreeSpanCounts* counts) TC_REQUIRES(lock_);
  Length FreePages() TC_EXCLUDES(lock_);
  // No request for more pages can be helped by giving back or unmapping what is free.
  Length MostThatMayFit() TC_EXCLUDES(lock_);

  Span* TakeRecordLocked() TC_REQUIRES(lock_);
  // The same, without touching the spare ones; null when there is no memory for more.
  Span* TakeRecord() TC_EXCLUDES(lock_);
  void ReturnRecordLocked(Span* span) TC_REQUIRES(lock_);
  bool AddRecords() TC_EXCLUDES(lock_);

  bool Grow(Length n, Length alignment) TC_EXCLUDES(lock_);
  bool GrowBy(Length n, bool hugepages) TC_EXCLUDES(lock_);
  void TellOfGrowth(Length n) {
    const auto observer = growth_observer_.load(std::memory_order_acquire);
    if (observer != nullptr) observer(n.bytes());
  }
  // Memory from the system that is not yet the heap's, with the records for it.
  struct NewMapping {
    Span* span = nullptr;
    void* region_memory = nullptr;
    Mapping mapping;

    Length length(Length granule) const {
      return Length((mapping.bytes >> kPageShift) & ~(granule.pages() - 1));
    }
  };
  // Gets such; false when there is none, or no memory for the records.
  [[nodiscard]] bool MapNew(Length n, size_t alignment, NewMapping* made) TC_EXCLUDES(lock_);
  // Frees the records.
  void Forget(const NewMapping& made) TC_EXCLUDES(lock_);
  // Makes it a free span of the heap's, whose record `made.span` is, neighbours included. Returns
  // the records of old regions that it was joined with, to be freed.
  Region* AddMappingLocked(const NewMapping& made, bool hugepages) TC_REQUIRES(lock_);
  // The first region that reaches behind `page`, null when there is none.
  const Region* NearestRegionLocked(PageId page) const TC_REQUIRES(lock_);
  // Returns the records of old regions that it was joined with, to be freed.
  Region* AddRegionLocked(Region* region) TC_REQUIRES(lock_);

  // Gives back at least `at_least` pages and at most `at_most`, but for rounding, slice by slice,
  // the longest spans first, until nothing is left or the system refused `max_refusals` slices.
  // Returns what went. Hugepages that are partly in use are broken last, and only with `may_break`.
  Length ReleasePass(Length at_least, Length at_most, size_t max_refusals, bool may_break)
      TC_EXCLUDES(lock_);
  // Takes a free span out of its region; `spare` becomes the record of what is behind it, where
  // there is something. Returns the records that are not needed, to be freed.
  Region* RemoveRegionLocked(PageId first, Length n, Region* spare) TC_REQUIRES(lock_);
  void FreeRegions(Region* regions) TC_EXCLUDES(lock_);
  Span* FindLongestFreeLocked() TC_REQUIRES(lock_);
  // Once the system has refused a mapping, what is free is no longer kept when it is more than half
  // of the heap: others need address space too, for example for the stacks of threads.
  void UnmapWhenShort() TC_EXCLUDES(lock_);
  // Takes free spans out of the address space, the longest first, until at least `n` pages went or
  // `max_refusals` spans stayed: the system keeps what sbrk gave, and refuses when there are too
  // many mappings.
  void UnmapAtLeast(Length n, size_t max_refusals) TC_EXCLUDES(lock_);
  // The longest free span, no longer the heap's, and the state that it had; null when there is
  // none.
  Span* TakeOutLongestFree(SpanState* state) TC_EXCLUDES(lock_);
  // Puts such a span back, in the state that it had.
  void AddSpan(Span* span, SpanState state) TC_EXCLUDES(lock_);

  // What came of one slice; of no pages when there was nothing to give.
  struct SliceResult {
    Length length;
    bool released = false;
  };
  // Gives back one slice of at most `limit` pages. When the system refuses it, it stays in
  // refused_.
  SliceResult ReleaseSlice(Length limit, bool may_break) TC_EXCLUDES(lock_);
  // What the system has said about a span of in_flight_.
  void EndReleaseLocked(Span* span, bool released) TC_REQUIRES(lock_);
  // Takes spans of a list, which are in state kReleasing, back among the free ones: at most `most`.
  void RestoreLocked(IntrusiveList<Span>& spans, size_t most) TC_REQUIRES(lock_);

  // Constant after construction.
  VirtualMemory& vm_;
  PageMap& page_map_;
  MetadataArena& arena_;
  const Options options_;
  const Length granule_;  // pages of ours in a hardware page, at least 1

  // The home that was added last. Release and acquire: who finds a home finds it constructed.
  std::atomic<SpanHome*> homes_{nullptr};

  SpinLock lock_{LockRank::kPageHeap};
  std::array<FreeSpans, kNumFreeKinds> free_ TC_GUARDED_BY(lock_);
  FreeRuns free_runs_ TC_GUARDED_BY(lock_);
  Length most_in_use_ TC_GUARDED_BY(lock_);       // at once, so far
  size_t homes_in_use_ TC_GUARDED_BY(lock_) = 0;  // that have a run_end
  IntrusiveList<Span> records_ TC_GUARDED_BY(lock_);
  size_t num_records_ TC_GUARDED_BY(lock_) = 0;
  Region* regions_ TC_GUARDED_BY(lock_) = nullptr;
  IntrusiveList<Span> in_flight_ TC_GUARDED_BY(lock_);
  // Set aside so that a pass does not meet them again. Of all passes: each takes as many out as it
  // put in, which may be others', and these meet them again.
  IntrusiveList<Span> refused_ TC_GUARDED_BY(lock_);
  // Slices that were begun, each of which has its number; threads in WaitForRelease.
  uint64_t releases_begun_ TC_GUARDED_BY(lock_) = 0;
  size_t release_waiters_ TC_GUARDED_BY(lock_) = 0;
  size_t moves_in_flight_ TC_GUARDED_BY(lock_) = 0;
  ReleasePolicy release_policy_ TC_GUARDED_BY(lock_);
  HugepageSetting hugepages_ TC_GUARDED_BY(lock_);
  // Becomes hugepages_ with the second growth, then empty.
  std::optional<HugepageSetting> later_hugepages_ TC_GUARDED_BY(lock_);
  // Where hugepages are not made any more, as far as there is room to remember it.
  std::array<PageRange, kStoppedRemembered> stopped_ TC_GUARDED_BY(lock_) = {};
  size_t num_stopped_ TC_GUARDED_BY(lock_) = 0;

  // Decide what is tried, nothing else, so relaxed suffices.
  std::atomic<bool> release_rate_is_positive_{true};
  std::atomic<bool> is_prompt_{false};
  std::atomic<Releasing> releasing_{Releasing::kByPolicy};
  std::atomic<bool> can_populate_{true};
  std::atomic<size_t> moves_left_{kTuning.reallocation.max_moves};
  std::atomic<void (*)(size_t)> growth_observer_{nullptr};
  std::atomic<void (*)()> free_observer_{nullptr};
  MemoryLimits limits_ TC_GUARDED_BY(lock_);
  std::array<bool, kNumLimitKinds> limit_set_by_program_ TC_GUARDED_BY(lock_) = {};
  LimitWatch limit_watch_ TC_GUARDED_BY(lock_);
  bool soft_release_refused_ TC_GUARDED_BY(lock_) = false;

  // What threads in WaitForRelease sleep on: changes when a slice ends, with lock_ held. Whoever
  // wakes up takes the lock to see what came of it, so relaxed suffices.
  std::atomic<uint32_t> release_ends_{0};

  // Set for good by whoever is refused a mapping; decides when to unmap, nothing else, so relaxed
  // suffices.
  std::atomic<bool> address_space_is_short_{false};

  // Hints, written with lock_ held: when that was last looked at, the heap was above its soft limit
  // and what is free could go; or was to be looked at because its program was told so; limit_watch_
  // has an event. Whoever acts on them looks again under the lock, so relaxed suffices.
  std::atomic<bool> above_soft_limit_{false};
  std::atomic<bool> near_soft_limit_{false};
  std::atomic<bool> limit_event_due_{false};

  // Written with lock_ held; read racily for statistics.
  OwnedCounter hard_limit_refusals_;
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
  OwnedCounter commits_;
  OwnedCounter unmapped_total_bytes_;
  OwnedCounter unmapped_backed_bytes_;
  OwnedCounter hugepages_advised_;
  OwnedCounter hugepages_broken_;
  OwnedCounter populations_;
  OwnedCounter moves_;
};

}  // namespace tcmalloc
