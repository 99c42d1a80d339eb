// SPDX-License-Identifier: BSD-3-Clause
// SpanStore: all spans of a page heap. It lists the free ones, finds the place for a request, and
// cuts and joins spans, by the rules at the head of this file (SavesSpace, NearRun). It makes no
// system call and takes no lock.
//
// Role. Free spans are joined with free neighbours of the same state; neighbours of different
// states are found as one run (page_heap/free_spans.h). A request gets the best fit among backed
// spans, then among released spans and runs (FindPlace). Callers call the OS to back and
// release pages. Zero-filled memory from the OS is added as released, since it is not backed yet;
// other memory is added as backed. Each span knows whether its released pages read as zeroes.
//
// Invariants
//   P1  Every page that came from the OS is in exactly one span.
//   P2  Neighbouring free spans differ in state.
//   P3  free_[kBacked] and free_[kReleased] hold exactly the spans of state kFreeBacked and
//       kFreeReleased.
//   P4  The start and the length of every span are multiples of the granule.
//   P5  The counts of a Hugepage agree with the states of its pages' spans.
//   P6  free_runs_ holds exactly the longest possible runs of two free spans or more (F1, F2).
//   P7  Hugepages with pages of spans of small objects are marked (W1 of
//       page_heap/hugepage_counts.h).
//   P8  A page reads as zeroes if it is in a free span that is kFreeReleased and zero_filled, or in
//       a span in use that is zero_filled, after its first in_use.written pages, before the program
//       has written to it. So a page becomes released only after the OS has released all of it;
//       what the OS refused, or released in part, is backed. Only programs write to pages: records
//       of free memory lie elsewhere, and Prefault may back pages, but not change them.
//       CheckInvariants cannot read all memory: the tests of Clear do.
//
// Thread safety: none; the page heap's lock guards it. Cost: O(1) up to 128 pages, O(log n) above;
// a change of the regions is a walk over them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/intrusive.h"
#include "base/tuned.h"
#include "base/units.h"
#include "page_heap/free_spans.h"
#include "page_heap/hugepage.h"
#include "page_heap/hugepage_counts.h"
#include "page_heap/page_map.h"
#include "page_heap/page_stats.h"
#include "page_heap/span.h"
#include "page_heap/span_home.h"

namespace tcmalloc {

// The rules by which a span's place is chosen: when to save address space, and how long near runs
// are. Pure functions.

// The shortest and the longest near runs, powers of two. A CPU prefetches past the end of a span,
// into memory on which another CPU works: two threads took 6 ns for each cache line with blocks of
// 32 KiB, 3.6 ns with 64 KiB, 1.9 ns with 256 KiB or more. The last pages of a run are wasted: 4 to
// 14 MiB in a program that holds 800 MB, with runs of 256 KiB (decision 0010).
inline constexpr Length kMinNearRun = TunedLength(256_KiB, 64_KiB, 2_MiB);
inline constexpr Length kMaxNearRun = TunedLength(1_MiB, kMinNearRun.bytes(), 2_MiB);
static_assert(std::has_single_bit(kMinNearRun.pages()) && std::has_single_bit(kMaxNearRun.pages()));
// The part of the memory in use that the current near runs of all shards may take together. Also:
// address space is saved when the heap exceeds the most memory that was in use by more than this
// part of it and the longest growth. Not measured.
inline constexpr size_t kPlacementPart = Tuned(16, 4, 256);

// When to place a large object so that it saves address space rather than page faults.
//
// A large object can be placed where memory is backed, or in the tightest fit, backed or not. The
// first saves page faults. The second saves address space: the heap grows if objects cut up long
// backed runs while released runs of the right length stay unused. Address space is cheap (records,
// and 9 bytes of the page map for each page), so it is saved only when the heap has much more of it
// than was ever in use at once.
//
// "Much more" means more by the longest growth of the heap plus a part of the most in use. With 128
// MiB instead, heaps of 500 MiB take more than 1.25 times the address space of best fit. If space
// is always saved, buffers of 64 KiB to 4 MiB cause 1.4 times the page faults; if it is never
// saved, heaps take up to 1.5 times the address space (decision 0030).
//
// `system`: pages from the OS; `most_in_use`: the most that were ever in use at once; `spare`:
// PageHeapOptions::spare_space.
constexpr bool SavesSpace(Length system, Length most_in_use, Length spare) {
  return system > most_in_use + Length(most_in_use.pages() / kPlacementPart) + spare;
}

// The length of near runs: the ranges of pages in which the spans of one shard follow each
// other.
//
// `in_use`: pages in use in the heap; `shards`: the number of shards that have spans.
constexpr Length NearRun(Length in_use, size_t shards) {
  Length run = kMaxNearRun;
  while (run > kMinNearRun && run.pages() * shards * kPlacementPart > in_use.pages()) {
    run = Length(run.pages() / 2);
  }
  return run;
}

// Which memory may serve a request of a shard: only the spans that the shard keeps; or any backed
// memory, kept or free; or also memory that the OS would have to back.
enum class Memory : uint8_t { kKept, kBacked, kAny };

class SpanStore {
 public:
  enum FreeKind { kBacked, kReleased, kNumFreeKinds };

  // More than any machine has; a sum of two does not overflow.
  static constexpr Length kMaxLength = Length((SIZE_MAX >> 1) >> kPageShift);
  // The most records that one operation takes: see Carve.
  static constexpr size_t kRecordsPerOperation = 4;
  // Records that no other operation takes, so that TakeForMetadata can cut a span to get memory
  // for more.
  static constexpr size_t kSpareRecords = 2;

  struct Request {
    Length length;
    Length alignment = Length(1);  // a power of two, at least the granule
    SpanState use = SpanState::kLarge;
    SpanHome* home = nullptr;  // null: not for a shard
    // For a SpanPool: takes more of the free span that it finds, up to this many pages, where there
    // is no memory limit; and leaves other homes their kept spans while these are few.
    Length chunk = Length(0);
    Memory memory = Memory::kAny;  // not kKept
    hugepage_policy::Need need = hugepage_policy::Need::kUnknown;
    int64_t now_ms = 0;
    // There are hugepages: a whole one is not cut for a shard while a shorter span fits.
    bool in_hugepages = false;
  };
  // A place for a request: in a free span, and in the free spans after it if it is too short.
  struct Place {
    Span* span = nullptr;
    Length offset = Length(0);
    // The place is released, to save address space, although there is a backed one.
    bool by_choice = false;
  };
  struct Taken {
    Span* span = nullptr;
    // Some of it was released, and no backed place was long enough.
    bool fresh = false;
    bool prefault = false;
  };

  // `granule`: pages in a hardware page, at least 1. `spare_space`: see SavesSpace.
  SpanStore(PageMap& page_map, const SpanHomes& homes, Length granule, Length spare_space)
      : page_map_(page_map),
        homes_(homes),
        granule_(granule),
        spare_space_(spare_space),
        hugepages_(page_map),
        small_places_(page_map),
        free_runs_(page_map) {}

  // Records. TakeRecord requires that there is one; callers check num_records() first.
  size_t num_records() const { return num_records_; }
  Span* TakeRecord();
  void ReturnRecord(Span* span);

  // Returns the best place; its span is null when no place is long enough. With `backed_only`,
  // only backed places count.
  Place FindPlace(const Request& request, bool backed_only) const;
  // The best backed place.
  Place FindBackedPlace(const Request& request) const { return FindOfKind(request, kBacked); }
  // The pages that become backed when `n` pages at `place` are taken, hugepages included.
  Length FreshPages(const Place& place, Length n) const;
  void Take(const Request& request, const Place& place, Taken* taken);

  // There are `more` free pages after `span`; sets `*fresh` to their FreshPages.
  bool CanExtend(const Span& span, Length more, Length* fresh) const;
  // Makes the large object's span `n` pages long. To make it longer requires CanExtend.
  void Resize(Span* span, Length n);
  // Frees a span in use.
  void Delete(Span* span);
  // As Delete, for a span whose `moved` pages after the first `head` were moved away: they are no
  // longer backed.
  void DeleteMoved(Span* span, Length head, Length moved);
  // Gives a free span away for good, for records of the allocator's own; null when none is long
  // enough. `may_cut`: it may take spare records to cut off what is not needed.
  Span* TakeForMetadata(Length n, bool may_cut);

  // Takes the span to release next out of the free lists, at most `limit` pages, and at most a
  // slice or a part of a long span, rounded to whole hugepages; null when there is none. Without
  // `may_split`, only one that splits no hugepage. Without `may_cut`, a whole free span of any
  // length. It is in no list then: the caller must remember it.
  Span* TakeReleasable(Length limit, bool may_split, bool may_cut);
  // Frees the span again. `released`: the OS has released its pages.
  void EndRelease(Span* span, bool released);

  // Adds pages from the OS as a free span. At most two records.
  Span* AddPages(PageRange range, SpanState state, bool zero_filled);
  // Removes the longest free span and its pages from the heap; null when there is none. The record
  // belongs to the caller; `*state` is its former state. At most one record.
  Span* RemoveLongest(SpanState* state);
  // The `n` pages from `page` on are the heap's.
  bool Owns(PageId page, Length n = Length(1)) const;
  // Lists at most `n` spans in order of their addresses, from the first that ends after `from` on;
  // returns their number. Spans may change between two calls. Cost: a walk over the regions and a
  // step per span. When no span begins at `from`, also a step for each span of its region before
  // it.
  size_t ListSpans(PageId from, SpanView* views, size_t n) const;

  // See SmallPlaces::Find.
  bool FindSmall(PageRange* part) const { return small_places_.Find(part); }

  HugepageCounts& hugepages() { return hugepages_; }
  Length in_use() const {
    return Length((counts.system_bytes - counts.releasing_bytes) >> kPageShift) - free(kBacked) -
           free(kReleased);
  }
  // To be called when more is in use; returns in_use().
  Length NoteInUse() {
    const Length now = in_use();
    if (now > most_in_use_) most_in_use_ = now;
    return now;
  }
  // Racy without the lock.
  Length free(FreeKind kind) const { return free_[kind].total(); }
  // Fills in the figures of the free lists; `lengths` may be null.
  void AddFree(PageStats* stats, FreeSpanCounts* lengths) const;
  // Aborts when an invariant does not hold. Walks all spans.
  void CheckInvariants() const;

  PageCounts counts;

 private:
  // The best place of this kind. For a home: see FindNear.
  Place FindOfKind(const Request& request, FreeKind kind) const;
  // When no backed free span is long enough: in a released one, or in a run.
  Place FindFresh(const Request& request) const;
  // In the shortest run that is long enough, at the end where more is backed.
  Place FindInRun(const Request& request) const;
  // The length of all free memory around a free span.
  Length FreeAround(const Span* span) const {
    return span->in_run ? free_runs_.RunOf(span).length() : span->num_pages;
  }
  // Finds a place adjacent to the home's last span; else one in a free span in which no other home
  // continues, if there is such a span.
  Place FindNear(const Request& request, FreeKind kind) const;
  // The shortest free span that is long enough and in which no other home continues (tries one span
  // of each length).
  Span* FindRun(Length n, const SpanHome& home, FreeKind kind) const;

  // The free span that `page` is the first or the last of; null when there is none.
  Span* FreeNeighbour(PageId page) const;
  // The free span that begins at `page`; null when there is none.
  Span* FreeSpanAt(PageId page) const;

  // Takes `range` out of the free `span`. Other pages of it that become backed with the range
  // become kFreeBacked: the rest of hugepages. Its pages are not yet counted as in use. At most
  // five pieces: four records.
  Span* Carve(Span* span, PageRange range);
  // Adds the `n` free pages after `span` to it, from one or several spans; true when some of them
  // were released.
  bool Append(Span* span, Length n);
  // Cuts `span`, which is in no list; returns the part from `at` on.
  Span* Split(Span* span, PageId at);
  // Frees the part of `span` before `at`, or from `at` on; the rest stays in no list.
  Span* FreeFront(Span* span, PageId at, SpanState state);
  void FreeBack(Span* span, PageId at, SpanState state);
  // Makes `span`, which is in no list, a free span: joins it with its neighbours and lists it.
  void Insert(Span* span, SpanState state);
  // Joins `neighbour` to `span` if it has that state; it may be null.
  bool Join(Span* span, Span* neighbour, SpanState state);
  // Takes a free span out of the lists. Until its state is changed, no neighbour of it may be
  // inserted.
  void Remove(Span* span);
  void MarkEnds(Span* span);
  void NotInUse(Span* span) {
    const bool large = span->Is(SpanState::kLarge) || span->Is(SpanState::kKept);
    TC_CHECK(large || span->Is(SpanState::kSmall));
    BytesInUse(large ? SpanState::kLarge : SpanState::kSmall) -= span->bytes();
    counts.large_spans -= large;
    hugepages_.CountUsed(span->pages(), false);
  }
  size_t& BytesInUse(SpanState use) {
    return use == SpanState::kSmall ? counts.small_span_bytes : counts.large_span_bytes;
  }
  FreeSpans& ListOf(const Span* span) {
    return free_[span->Is(SpanState::kFreeReleased) ? kReleased : kBacked];
  }

  // The first region that ends after `page`; null when there is none.
  Span* NearestRegion(PageId page) const;
  void AddRegion(PageRange range);
  void RemoveRegion(PageRange range);
  // What CheckInvariants has seen so far.
  struct Walk {
    size_t runs = 0;
    std::array<Length, kNumFreeKinds> listed;
    Length in_use;
    Length pooled;  // in span pools
  };
  void CheckRegion(const Span& region, Walk* walk) const;
  // The hugepage that a walk over a region is in: where the walk entered it, and the counts of its
  // pages so far. A hugepage that lies only partly in the region is not compared.
  struct CountedHugepage {
    PageId from;
    Hugepage counts = {};
  };
  // Counts the pages of the span, and compares each hugepage that ends in it.
  void CheckHugepages(const Span& span, CountedHugepage* counted) const;

  PageMap& page_map_;
  const SpanHomes& homes_;
  const Length granule_;
  const Length spare_space_;
  HugepageCounts hugepages_;
  SmallPlaces small_places_;
  std::array<FreeSpans, kNumFreeKinds> free_;
  FreeRuns free_runs_;
  // Unused records, and the records of regions: ranges of address space from the OS, contiguous
  // ones joined. The record of a region is in state kUnused, and the page map has no entry for it.
  IntrusiveList<Span> records_;
  size_t num_records_ = 0;
  IntrusiveList<Span> regions_;
  Length most_in_use_;       // at once, so far
  size_t homes_in_use_ = 0;  // homes that have a run_end
};

}  // namespace tcmalloc
