// SPDX-License-Identifier: BSD-3-Clause
// SpanStore: all spans of a page heap: which are free, where a request goes, and how spans are cut
// and joined. It makes no system call and takes no lock.
//
// Role. Free spans are joined with free neighbours of the same state; neighbours of different state
// are found as one run (page/free_runs.h). A request gets the best fit among backed spans, then
// among released spans and runs (span_places.cc). What the OS is to back or to release is the
// callers' work. Zero-filled memory from the OS arrives as released: nothing backs it yet. Other
// memory arrives as backed ("mapped"). Whether released memory reads as zeroes is known of each
// span.
//
// Invariants
//   P1  Every page that came from the OS is in exactly one span.
//   P2  Neighbouring free spans differ in state.
//   P3  free_[kBacked] and free_[kReleased] hold exactly the spans of state kFreeBacked and
//       kFreeReleased.
//   P4  Every span starts at, and is as long as, a multiple of the hardware page where that is
//       larger than ours.
//   P5  A Hugepage's counts are those of the pages of its spans.
//   P6  free_runs_ holds exactly the longest possible runs of two free spans or more (F1, F2).
//
// Thread safety: none; the page heap's lock guards it. Cost: O(1) up to 128 pages, O(log n) above;
// a change of the regions is a walk over them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/intrusive_list.h"
#include "base/units.h"
#include "page/free_runs.h"
#include "page/free_spans.h"
#include "page/hugepage_counts.h"
#include "page/hugepage_policy.h"
#include "page/page_map.h"
#include "page/page_stats.h"
#include "page/span.h"
#include "page/span_home.h"

namespace tcmalloc {

class SpanStore {
 public:
  enum FreeKind { kBacked, kReleased, kNumFreeKinds };

  // More than any machine has, and little enough to be added to.
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
    hugepage_policy::Need need = hugepage_policy::Need::kUnknown;
    int64_t now_ms = 0;
    // There are hugepages: of spans of equal length the one in the fullest hugepage is taken.
    bool in_hugepages = false;
  };
  // Where in a free span. What does not fit into it is in the free spans that follow on it.
  struct Place {
    Span* span = nullptr;
    Length offset = Length(0);
    // It takes released memory, to save address space, although there is a backed place.
    bool by_choice = false;
  };
  struct Taken {
    Span* span = nullptr;
    // Some of it was released, and no backed place would have done.
    bool fresh = false;
    // With a `step`: what became backed with it.
    PageRange backed;
  };

  // `granule`: pages in a hardware page, at least 1. `spare_space`: see SavesSpace.
  SpanStore(PageMap& page_map, const SpanHomes& homes, Length granule, Length spare_space)
      : page_map_(page_map),
        homes_(homes),
        granule_(granule),
        spare_space_(spare_space),
        hugepages_(page_map),
        free_runs_(page_map) {}

  // Records. TakeRecord requires that there are some; callers look at num_records() first.
  size_t num_records() const { return num_records_; }
  void ReturnRecord(Span* span);

  // The best place; without a span when there is none, and with `backed_only` when all places are
  // released.
  Place FindPlace(const Request& request, bool backed_only) const;
  // The best backed one.
  Place FindBackedPlace(const Request& request) const { return FindOfKind(request, kBacked); }
  // The pages that become backed when `n` pages at `place` are taken, hugepages included.
  Length FreshPages(const Place& place, Length n) const;
  // Takes the place. `step`: see Carve.
  void Take(const Request& request, const Place& place, Length step, Taken* taken);

  // There are `more` free pages behind `span`; FreshPages of them.
  bool CanExtend(const Span& span, Length more, Length* fresh) const;
  // Makes the large object's span `n` pages long. Requires: CanExtend, where that is more.
  void Resize(Span* span, Length n);
  // Frees a span in use. Of [head, head + moved) nothing is backed any more.
  void Delete(Span* span);
  void DeleteMoved(Span* span, Length head, Length moved);
  // Gives a free span away for good, for records of the allocator's own; null when none is long
  // enough. Takes spare records.
  Span* TakeForMetadata(Length n);

  // Takes what is to be released next out of the free spans, at most `limit` pages but for whole
  // hugepages; null when there is none, or none without splitting hugepages. It is in no list then,
  // for its caller to remember. Without `may_cut` a whole span goes.
  Span* TakeReleasable(Length limit, bool may_split, bool may_cut);
  // What the OS did with it.
  void EndRelease(Span* span, bool released);

  // Adds pages from the OS as a free span. At most two records.
  Span* AddPages(PageRange range, SpanState state, bool zero_filled);
  // Takes the longest free span out, as if its pages had never come; null when there is none. The
  // record is the caller's; `*state` is the state that it had. At most one record.
  Span* RemoveLongest(SpanState* state);
  bool Owns(PageId page) const;
  // The first stretch of address space that came from the OS and reaches behind `page`: sets
  // [*first, *end) to what of it is not in front of `page`. False when there is none.
  bool FindRegion(PageId page, PageId* first, PageId* end) const;
  // The spans in order of their addresses, from the first that ends behind `from` on, `n` at most;
  // returns how many. Those of later calls may have changed meanwhile. Cost: a walk over the
  // regions and a step per span; when the last call's end is no boundary any more, over all spans
  // of its region in front of it.
  size_t ListSpans(PageId from, SpanView* views, size_t n) const;

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
  // Fills in what the free lists know; `lengths` may be null.
  void AddFree(PageStats* stats, FreeSpanCounts* lengths) const;
  // Aborts when an invariant does not hold. Walks all spans.
  void CheckInvariants() const;

  PageCounts counts;

 private:
  // Of the kind. For a home: adjacent to its last span, else the tightest fit in which no other
  // home goes on.
  Place FindOfKind(const Request& request, FreeKind kind) const;
  // Where no backed free span is long enough: in a released one, or in a run of several.
  Place FindFresh(const Request& request) const;
  // In the shortest run that is long enough: at that end where more is backed.
  Place FindInRun(const Request& request) const;
  // The length of all free memory around a free span.
  Length FreeAround(const Span* span) const {
    return span->in_run ? free_runs_.RunOf(span).length() : span->num_pages;
  }
  // Of equals the one in the fullest hugepage.
  Span* FullestOfEqual(const Request& request, Span* span, FreeKind kind) const;
  // Adjacent to the home's last span, else in a run that no other home goes on in.
  Place FindNear(const Request& request, FreeKind kind) const;
  // The tightest fit in which no other home goes on (of equals one is looked at).
  Span* FindRun(Length n, const SpanHome& home, FreeKind kind) const;

  // The free span that `page` is the first or the last of; null when there is none.
  Span* FreeNeighbour(PageId page) const;
  // The free span that begins at `page`; null when there is none.
  Span* FreeSpanAt(PageId page) const;

  Span* TakeRecord();
  // Takes `range` out of the free `span`. What else of it becomes backed with these pages becomes
  // kFreeBacked: the rest of hugepages, and what lies in the same blocks of `step` pages. `*backed`
  // is all that does. The pages are not yet counted as in use. At most five pieces: four records.
  Span* Carve(Span* span, PageRange range, Length step, PageRange* backed);
  // Adds the `n` free pages behind `span` to it, which may be several spans; true when some of
  // them were released.
  bool Append(Span* span, Length n);
  // Cuts `span`, which is in no list: the part from `at` on is returned.
  Span* Split(Span* span, PageId at);
  // Frees what of `span` is in front of `at`, or behind; the rest stays in no list.
  Span* FreeFront(Span* span, PageId at, SpanState state);
  void FreeBack(Span* span, PageId at, SpanState state);
  // Makes `span`, which is in no list, a free one: joins it with its neighbours and lists it.
  void Insert(Span* span, SpanState state);
  // Makes a free neighbour of that state, which may be null, a part of `span`.
  bool Join(Span* span, Span* neighbour, SpanState state);
  // Takes a free span out of the lists. Until it has another state it must not be a neighbour of
  // what is inserted.
  void Remove(Span* span);
  void MarkEnds(Span* span);
  void NotInUse(Span* span) {
    const bool large = span->Is(SpanState::kLarge);
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

  // The first region that reaches behind `page`, null when there is none.
  Span* NearestRegion(PageId page) const;
  void AddRegion(PageRange range);
  void RemoveRegion(PageRange range);
  // What CheckInvariants has seen so far.
  struct Walk {
    size_t runs = 0;
    std::array<Length, kNumFreeKinds> listed;
    Length in_use;
  };
  void CheckRegion(const Span& region, Walk* walk) const;

  PageMap& page_map_;
  const SpanHomes& homes_;
  const Length granule_;
  const Length spare_space_;
  HugepageCounts hugepages_;
  std::array<FreeSpans, kNumFreeKinds> free_;
  FreeRuns free_runs_;
  // Unused records, and those of regions: stretches of address space from the OS, contiguous ones
  // joined. The record of a region is in state kUnused, and the page map does not name it.
  IntrusiveList<Span> records_;
  size_t num_records_ = 0;
  IntrusiveList<Span> regions_;
  Length most_in_use_;       // at once, so far
  size_t homes_in_use_ = 0;  // that have a run_end
};

}  // namespace tcmalloc
