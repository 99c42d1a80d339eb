// SPDX-License-Identifier: BSD-3-Clause
// CentralFreeList: the spans of one size class and, per span, a bitmap of its free objects.
//
// Role. Cuts spans into objects, takes objects back, returns a span to the page heap as soon as all
// its objects are free. What it writes into an object is what was there
// (line_ownership.h). Called by: the central cache. Lock:
// LockRank::kCentral.
//
// What is handed out. In the order of addresses within a span, and from the span with the fewest
// free objects, so that emptying spans empty. Objects smaller than a cache line, or not aligned to
// one, share lines with their neighbours; two threads that write to one line slow each other down.
// So free objects are handed out by line groups (SizeClasses::line_objects), and a group is divided
// only when the class has no whole one left. What came back one by one is a whole group again when
// the last of its objects is back: the bitmap is where lines are gathered.
//
// States of a span: with a whole group free, as far as is known; split, when none is; full, when no
// object is free. Who looks for whole groups finds each split span once: it leaves the state when
// an object comes back that completes a group.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/compiler.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/size_classes.h"
#include "central/hole_claims.h"
#include "central/misuse.h"
#include "central/object_words.h"
#include "central/ranked_spans.h"
#include "central/shard_map.h"
#include "central/span_owner.h"
#include "os/spinlock.h"
#include "page/metadata_arena.h"
#include "page/page_heap.h"
#include "page/page_map.h"
#include "page/span.h"

namespace tcmalloc {

// Who allocated the objects that a thread gives back.
enum class Origin : bool { kAny, kOtherThreads };

// Invariants
//   C1  A span with free objects is in the list of its shard's spans for its free_count and for
//       whether it is split; a span without free objects is in no list; a span with only free
//       objects is not here.
//   C2  ShardSpans::free_objects = sum of free_count over the shard's spans of the class;
//       num_spans counts all of them.
//   C3  No object is free in the words of a span before first_free_word, no whole group in those
//       before first_whole_word; a span is split when the latter is the number of words. Where a
//       group is one object, first_whole_word stays 0.
//   C4  The owner of a span that is counted names the class and the shard that counts it;
//       ShardSpans::hole_pages = sum of hole_pages over the spans with free objects, and a span
//       without has none.
//
// Misuse. A second free of an object finds its bit set; a pointer that is no object start has no
// index. Both abort with one line, after the lock is released.
//
// Shards. A span belongs to one shard (see ShardMap) as long as it is here: its objects come back
// to that one wherever they are freed. Who asks is served by its own; by another one before the
// class takes more memory, unless that has less than a batch left for itself.
//
// Synchronization. One lock per class and shard (ShardSpans), never two at once; the page heap and
// the arena are called without. The lock covers claims, not bit work: see ClaimLocked and
// GatherRuns.
//
// Cost. Insert and Remove of neighbours: two locked operations and a few nanoseconds for 64
// objects.
class alignas(kCacheLineSize) CentralFreeList {
 public:
  CentralFreeList(SizeClass size_class, ShardMap& shards, PageHeap& page_heap, PageMap& page_map,
                  MetadataArena& arena);

  // Puts up to `n` free objects into `objects` and returns how many: fewer than `n`, but at least
  // 1, where the next ones would have to come from somewhere else; 0 when the system gives no
  // memory.
  //
  // From the spans of the shard `own`, and from pages that it emptied a moment ago; where it has
  // neither, from another one that has at least a batch; else from a new span, which belongs to
  // `own`.
  // With `n` of at least line_objects(): whole groups, while the class has any in its spans. With a
  // smaller `n`: from groups that are divided already, else one is divided. The incomplete group
  // behind the last complete one of a span counts as whole: no other object is in its lines.
  size_t Remove(Shard& own, void** objects, size_t n);

  // Takes `n` objects of the class back, whichever shards their spans belong to. `own` is the
  // caller's: what it empties of its own is what it is given next.
  //
  // Objects of kOtherThreads are such as the caller did not allocate, as far as is known: where
  // their spans belong to another shard, it takes their lines (see line_ownership.h).
  void Insert(Shard& own, void* const* objects, size_t n, Origin origin = Origin::kAny);

  // Giving memory of free objects back while their spans stay in use, for HoleRelease.
  //
  // Where `page` is of `span`, and that is still `owner`'s: claims the span's holes, unless all of
  // them went to the system before. What is claimed is as good as handed out: the span
  // stays, no one gets the objects, and a second free of one is found when it returns. `*page` is
  // set to the first page that is left to look at. False, and nothing is changed, when `claims` has
  // no room for the span.
  // Requires: `owner` is counted, and of this class.
  bool ClaimHoles(Span* span, SpanOwner owner, size_t hardware_page_size, HoleClaims* claims,
                  PageId* page);
  // Returns the objects of the first span in `claims`, which is one of the class.
  void ReturnHolesOfOneSpan(HoleClaims* claims);

  ShardMap& shards() { return shards_; }
  // Sums over the shards.
  size_t free_objects() const;
  size_t num_spans() const;
  // Hardware pages of the class's spans that have no memory behind them: see Span::hole_pages.
  size_t hole_pages() const;
  // Objects of the span that are free here; 0 also when `page` is not in a span of this class,
  // which `span` is a hint to. Any span record will do.
  size_t FreeObjectsIn(const Span* span, PageId page) const;
  size_t objects_per_span() const { return objects_per_span_; }
  size_t object_size() const { return object_size_; }
  size_t line_objects() const { return groups_.size(); }
  size_t span_bytes() const { return span_pages_.bytes(); }
  // Bytes of the class's spans that are in no object.
  size_t tail_bytes() const {
    return num_spans() * (span_bytes() - objects_per_span_ * object_size_);
  }

  // `p` is an object of the class, and in use as far as its bit tells: a thread or a thread cache
  // has it.
  bool IsOut(const void* p);

  void CheckInvariants();

 private:
  enum class Take : uint8_t {
    kWholeGroups,  // no group may be divided
    kAny,
  };

  // Only from what the page heap keeps for the shard.
  enum class Near : bool { kNo, kYes };

  // Objects on their way out.
  struct Claims : ObjectWordsInFlight {
    size_t wanted = 0;  // objects still to be claimed
  };

  // Objects on their way back: those of one word of a span's bitmap, which follow each other in the
  // caller's array.
  struct Run {
    Span* span;
    uintptr_t start;  // of the span, at the time
    uint64_t mask;
    uint16_t word;
    uint16_t first;  // where in the caller's array
    uint16_t count;
    uint8_t shard;  // of the span, at the time
  };
  struct Runs {
    static constexpr size_t kMaxRuns = 24;
    Run runs[kMaxRuns];
    size_t num_runs = 0;
    uint64_t shards = 0;  // bit i: there is a run of shard i
  };
  static_assert(ShardMap::kMost <= 64);
  static_assert(sizeof(Claims) <= 1024 && sizeof(Runs) <= 1024);

  struct Finding {
    Misuse misuse = Misuse::kNone;
    const void* object = nullptr;
  };

  // A new span of the class with all objects free, in no list; null when the system gives no
  // memory. `spans` are those of `own`.
  Span* NewSpan(Shard& own, const ShardSpans& spans, Near near);
  // A bitmap that is large enough; false when there is no memory.
  bool EnsureBitmap(Span* span);
  void DeleteSpan(const Shard& own, Span* span);
  // The emptied spans of shard `s`, whose lock is held, are not of the class any more. Not before
  // the call that emptied them is done with the class: so a second free of one of their objects in
  // the same call is still seen for what it is.
  static void Disown(size_t s, Span* emptied);

  Take TakeFor(size_t n) const {
    return groups_.size() > 1 && n >= groups_.size() ? Take::kWholeGroups : Take::kAny;
  }
  // Of the class, in the shard with that number; null where there are none.
  ShardSpans* SpansAt(size_t shard) const { return shards_.SpansAt(shard, size_class_); }
  // Sums `counter` over the shards.
  size_t SumOf(OwnedCounter ShardSpans::* counter) const;

  // Racy.
  static bool HasObjects(const ShardSpans* spans) {
    return spans != nullptr && spans->free_objects.value() > 0;
  }

  // Takes objects out of one shard's spans, which may be null; returns how many.
  size_t RemoveFrom(ShardSpans* spans, Take take, void** objects, size_t n);
  // Out of the first of the other shards that has at least `least` free objects.
  size_t RemoveFromOthers(const Shard& own, Take take, size_t least, void** objects, size_t n);
  size_t RemoveFromNewSpan(Shard& own, Take take, Near near, void** objects, size_t n);
  // Turns what was claimed into addresses; returns where the next one goes.
  void** AppendClaimed(const Claims& claims, void** out) const;

  bool IsSpanOfClass(const Span* span, const void* p) const;
  // `p` cannot be freed as an object of `span`, its entry in the page map.
  TC_SLOW_PATH Finding BadPointerSlow(const Span* span, const void* p) const;
  bool IsSplit(const Span* span) const { return span->first_whole_word == words_per_span_; }
  RankedSpans::Place PlaceOf(size_t free_count, bool split) const {
    if (free_count == 0 || free_count == objects_per_span_) return RankedSpans::kNowhere;
    return RankedSpans::PlaceFor(free_count, split);
  }
  RankedSpans::Place PlaceOf(const Span* span) const {
    return PlaceOf(span->free_count, IsSplit(span));
  }
  // The bits of word `w` that are free whole groups.
  uint64_t WholeGroups(const Span* span, size_t w) const {
    const uint64_t word = span->free_bits[w];
    if (w + 1 < words_per_span_) return groups_.Whole(word);
    return groups_.Whole(word | tail_padding_) & word;
  }

  // Claims objects from the spans there are until claims->wanted is 0 or no more than a part of a
  // group, until there is no more room in `claims`, or until there are no more.
  //
  // What is claimed is no one else's from then on: its bits are clear, so that no other call hands
  // it out, and its span counts it as in use, so that the span stays. Turning the bits into
  // addresses therefore needs no lock, and is done without.
  void ClaimLocked(ShardSpans& spans, Take take, Claims* claims) TC_REQUIRES(spans.lock);
  // The same from a new span, which goes into its list.
  void ClaimFromNewSpanLocked(ShardSpans& spans, Span* span, Take take, Claims* claims)
      TC_REQUIRES(spans.lock);
  // The same from one span of spans whose lock is held; it stays where it is listed: only whole
  // groups; the lowest free objects; such as are in divided groups, then the lowest.
  void ClaimWholeGroupsLocked(Span* span, Claims* claims);
  void ClaimLowestLocked(Span* span, Claims* claims);
  void ClaimDividedLocked(Span* span, Claims* claims);
  // Takes the bits `mask` out of word `w`.
  void ClaimBitsLocked(Span* span, size_t w, uint64_t mask, Claims* claims);

  // Finds out where the first objects of `objects` belong; stops at one that can be no object, and
  // says so in `finding`, and when there is no more room in `runs`. Returns how many it did.
  //
  // Takes no lock: the objects are still in use, so their spans stay what they are until this call
  // sets the objects' bits. That is not so for what the program frees twice or never got: nothing
  // that hangs on a span is touched here, and InsertLocked looks whether the span is one of the
  // class and where it was.
  size_t GatherRuns(void* const* objects, size_t n, Runs* runs, Finding* finding) const;
  // Takes the lines of what goes to other shards than `own`.
  void TakeFarLines(size_t own, const Runs& runs, void* const* objects) const;
  // Sets the bits of the runs of shard `s`, whose spans of the class are `spans`. Puts the spans
  // where they belong then: into lists, or, when all objects are free, in front of `emptied`. Stops
  // at a run with an object that is not in use.
  Finding InsertLocked(ShardSpans& spans, size_t s, const Runs& runs, void* const* objects,
                       Span** emptied) TC_REQUIRES(spans.lock);
  // The same for a shard that has no spans of the class: the first of these objects is not in use.
  TC_SLOW_PATH static Finding FirstOfShardSlow(size_t s, const Runs& runs, void* const* objects);
  // After objects came back to `span`, which had `old_count` free ones and may have been split
  // until then. Returns how many free objects go with it when it is emptied, else 0.
  size_t RelistLocked(ShardSpans& spans, Span* span, uint32_t old_count, bool no_longer_split,
                      Span** emptied) TC_REQUIRES(spans.lock);
  // The span's holes are not known to be without memory any more.
  static void ForgetHolesLocked(ShardSpans& spans, Span* span) TC_REQUIRES(spans.lock) {
    if (span->hole_pages == 0) return;
    spans.hole_pages.Subtract(span->hole_pages);
    span->hole_pages = 0;
  }
  // Sets the bits of objects that were claimed; returns the first one whose bit is set already,
  // kNoObject when there is none. `*no_longer_split` is set when the span is split no longer.
  static constexpr size_t kNoObject = SIZE_MAX;
  size_t ReturnRangeLocked(Span* span, size_t first, size_t n, bool* no_longer_split);
  void CheckShard(size_t number, ShardSpans& spans) TC_EXCLUDES(spans.lock);
  // The first object of the run that is free already.
  TC_SLOW_PATH const void* FindDoubleFreeSlow(const Run& run, void* const* objects) const;

  // Constant after construction.
  const SizeClass size_class_;
  const size_t object_size_;
  const Length span_pages_;
  const size_t objects_per_span_;
  const size_t words_per_span_;
  // What a shard keeps for itself when another one asks.
  const size_t spare_objects_;
  const BitGroups groups_;
  // Objects in the incomplete group at the end of a span, and the bits of the last word that it
  // lacks; 0 when there is none.
  const size_t tail_objects_;
  const uint64_t tail_padding_;
  ShardMap& shards_;
  PageHeap& page_heap_;
  PageMap& page_map_;
  MetadataArena& arena_;
};

}  // namespace tcmalloc
