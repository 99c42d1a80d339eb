// SPDX-License-Identifier: BSD-3-Clause
// CentralFreeList: the spans of one size class and, per span, a bitmap of its free objects.
//
// Role. It cuts spans into objects, takes objects back, and returns a span to the page heap as soon
// as all objects of the span are free. It never changes the contents of an object (see
// object_words.h). Called by: the central cache. Lock: that of the class in the shard.
//
// Order of allocation. Objects are handed out in the order of addresses within a span, and from the
// span with the fewest free objects, so that nearly empty spans become empty. Objects smaller than
// a cache line, or not aligned to one, share lines with adjacent objects; two threads that write to
// one line slow each other down. So a thread gets objects that other threads may use in line
// batches (SizeClasses::line_objects), called groups here. A group is whole again when the last of
// its objects is back, even if they come one by one: the bitmap collects them.
//
// States of a span. A whole group may be free; or it is split, when no whole group is free; or
// full, when no object is free. A search for whole groups visits each split span once: the span
// leaves this state when an object comes back that completes a group.
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
#include "base/tuned.h"
#include "central/hole_claims.h"
#include "central/misuse.h"
#include "central/object_words.h"
#include "central/shard.h"
#include "os/spinlock.h"
#include "page_heap/metadata_arena.h"
#include "page_heap/page_heap.h"
#include "page_heap/page_map.h"
#include "page_heap/span.h"

namespace tcmalloc {

// The sources from which a thread gets free objects of a size class, their order, and the shards of
// other threads that it may take them from. Pure functions.
//
// Goals, the first before the second. Two threads never have objects on one cache line because of
// the allocator. Memory that was freed serves whichever thread needs it.
//
// Rule. A thread takes what its own shard has, divided line batches included: only its own objects
// are on those lines. Only one thread at a time may use the shard of an ended thread. The first
// thread that takes objects of the class from that shard adopts it: from then on it may take its
// divided line batches too, and other threads treat the shard as that thread's own. While a living
// thread allocates from its shard, other threads take nothing there, since it will need its free
// objects again. When it has stopped, they take whole line batches. A thread gets a new span before
// it takes divided line batches of a living thread.
//
// An adopter still shares lines with two kinds of threads: those that got objects from the ended
// thread; and a new thread that gets the shard, until the adopter has freed what it took.
//
// A request for less than a line batch takes nothing from idle threads, since the other thread
// would keep the rest of the line batch. Only a thread without a bin for the class makes such
// requests: without a cache, while hooks bypass the caches, or for a moment while no budget is left
// (ThreadCache::CountUseWithoutBin). At worst, its own shard grows as if idle threads had no free
// objects. Before an allocation fails, kAnyShard finds them.
//
// What "has stopped" means. It is not measured in time, since threads that wait for a CPU would
// seem to have stopped. It is counted in new spans: they show that the class needs memory. A thread
// that has taken nothing from its shard's spans of the class since the class last got a new one
// does not need them now.
//
// Two other rules were tried (figures in decision 0040). If a thread takes whole line batches of
// all living threads, lines are shared again, since the other thread's part of such a line returns
// to the shard. If it takes nothing of other living threads, larson needs 1.7 times the memory.

// Other threads may take whole line batches of a size class from a thread's shard once the class
// has got this many new spans, in any shard, since the thread last took objects of the class from
// its shard. Without this rule larson keeps 1.27 times the memory with 2 threads and 1.7 times with
// 8. With 4 new spans it keeps 1.17 times the memory with 2 threads. With 1 it keeps no more
// memory, and threads share no more lines (decision 0040).
inline constexpr size_t kIdleAfterNewSpans = Tuned(1, 1, 64);

// Which free objects may be taken.
enum class Takeable : uint8_t {
  kNothing,
  kWholeGroups,  // no line batch may be divided
  kAny,
};

enum class RefillSource : uint8_t {
  kOwnShard,
  kKeptSpan,      // of the own shard
  kEndedThreads,  // shards that no living thread has or has adopted
  kIdleThreads,   // shards whose threads do not allocate from the class
  kNewSpan,
  kAnyShard,  // before the allocation fails
};

inline constexpr RefillSource kRefillOrder[] = {
    RefillSource::kOwnShard,    RefillSource::kKeptSpan, RefillSource::kEndedThreads,
    RefillSource::kIdleThreads, RefillSource::kNewSpan,  RefillSource::kAnyShard,
};

// What a thread knows of another shard without taking its lock.
struct OtherShard {
  // A living thread has it, or has adopted it.
  bool has_thread;
  // New spans of the class since a thread of this shard last took objects from it.
  size_t new_spans_since_use;
};

// What may be taken from the other shard when it is the turn of `source`.
constexpr Takeable TakeFromOther(RefillSource source, const OtherShard& other) {
  switch (source) {
    case RefillSource::kOwnShard:
    case RefillSource::kKeptSpan:
    case RefillSource::kNewSpan:
      return Takeable::kNothing;
    case RefillSource::kEndedThreads:
      return other.has_thread ? Takeable::kNothing : Takeable::kAny;
    case RefillSource::kIdleThreads:
      return other.has_thread && other.new_spans_since_use >= kIdleAfterNewSpans
                 ? Takeable::kWholeGroups
                 : Takeable::kNothing;
    case RefillSource::kAnyShard:
      return Takeable::kAny;
  }
  return Takeable::kNothing;
}

// Who allocated the objects that a thread returns.
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
// Shards. A span belongs to one shard (see ShardMap) as long as it is here: its objects return to
// that shard wherever they are freed. A thread is served by its own shard as long as that has free
// objects; see kRefillOrder for the other sources.
//
// Synchronization. One lock per class and shard (ShardLocks), never two at once; none is held over
// calls of the page heap and the arena. The lock covers claims, not bit work: see ClaimLocked and
// GatherRuns.
//
// Cost. Insert and Remove of adjacent objects: two locked operations and a few nanoseconds for 64
// objects.
class alignas(kCacheLineSize) CentralFreeList {
 public:
  // What the lists of all classes use.
  struct Parts {
    ShardMap& shards;
    PageHeap& page_heap;
    PageMap& page_map;
    MetadataArena& arena;
  };

  CentralFreeList(SizeClass size_class, const Parts& parts);

  // Puts up to `n` free objects into `objects` and returns how many: fewer than `n`, but at least
  // 1, where the next ones would come from another source; 0 when the OS provides no memory, or
  // none of the kind `memory`. They are in reverse order: the last one has the lowest address of
  // its span, and should be used first.
  //
  // The sources and their order: kRefillOrder. A new span belongs to `own`. Takes nothing if only
  // whole groups may be taken and `n` is less than line_objects(). The incomplete group after the
  // last complete one of a span counts as whole: no other object is in its lines.
  size_t Remove(Shard& own, void** objects, size_t n, Memory memory = Memory::kAny);

  // Takes `n` objects of the class back, whichever shards their spans belong to. `own` is the
  // caller's shard: it gets the spans of its own that this empties first at its next request.
  //
  // Objects of kOtherThreads are those that the caller did not allocate, as far as is known: where
  // the threads of their shards run on another CPU, it takes their lines (see object_words.h).
  void Insert(Shard& own, void* const* objects, size_t n, Origin origin = Origin::kAny);

  // Releasing memory of free objects while their spans stay in use, for HoleRelease.
  //
  // If `page` is in `span`, and the span still has this `owner`: claims the span's holes, unless
  // all of them are released already. Claimed objects count as handed out: the span stays, nobody
  // else gets them, and a second free of one is found when they return. Sets `*page` to the next
  // page to look at. Returns false, and changes nothing, when `claims` has no room for the span.
  // Requires: `owner` is counted, and of this class.
  bool ClaimHoles(Span* span, SpanOwner owner, size_t hardware_page_size, HoleClaims* claims,
                  PageId* page);
  // Returns the objects of the first span in `claims`, which is one of the class.
  void ReturnHolesOfOneSpan(HoleClaims* claims);

  ShardMap& shards() { return parts_.shards; }
  // Sums over the shards.
  size_t free_objects() const;
  size_t num_spans() const;
  // Hardware pages of the class's spans that are released: see Span::hole_pages.
  size_t hole_pages() const;
  // Objects of the span that are free here; 0 also when `page` is not in a span of this class.
  // `span` is a hint and may be any span record.
  size_t FreeObjectsIn(const Span* span, PageId page) const;
  size_t objects_per_span() const { return objects_per_span_; }
  size_t object_size() const { return object_size_; }
  size_t line_objects() const { return groups_.size(); }
  size_t span_bytes() const { return span_pages().bytes(); }
  // Bytes of the class's spans that are in no object.
  size_t tail_bytes() const {
    return num_spans() * (span_bytes() - objects_per_span() * object_size());
  }

  // `p`, an object of the class, is in use according to its bit: a thread or a thread cache has it.
  bool IsOut(const void* p);

  void CheckInvariants();

 private:
  // Objects that are being handed out.
  struct Claims : ObjectWordsInFlight {
    size_t wanted = 0;  // objects still to be claimed
  };

  // Returning objects of one word of a span's bitmap, which are adjacent in the caller's array.
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

  // The most spans that are taken from the page heap or given to it at once.
  static constexpr size_t kSpansAtOnce = 8;

  struct Finding {
    Misuse misuse = Misuse::kNone;
    const void* object = nullptr;
  };

  // Puts new spans of the class for `n` objects into `fresh`, at most kSpansAtOnce, with all
  // objects free, in no list. Returns how many; 0 when the OS provides no memory. `spans` are those
  // of `own`.
  size_t NewSpans(Shard& own, ShardSpans& spans, Memory memory, size_t n, Span** fresh);
  // False, and the span is deleted, when there is no memory for a bitmap.
  bool PrepareSpan(const Shard& own, Span* span);
  // A bitmap that is large enough; false when there is no memory.
  bool EnsureBitmap(Span* span);
  // Deletes the first spans of the list `emptied`, those of one shard; returns the rest of the
  // list.
  Span* DeleteSpans(const Shard& own, Span* emptied);
  // True if the objects that pass through shard `s` are in the hardware caches of the calling
  // thread's CPU: `s` is the caller's shard, or its thread last ran on this CPU.
  bool IsNear(const Shard& own, size_t s) const;
  // Removes the class from the owner of emptied spans of shard `s`, whose lock is held. Called at
  // the end of the call that emptied them, so that a second free of one of their objects in the
  // same call is still recognised.
  static void Disown(size_t s, Span* emptied);

  // Sums `counter` over the shards.
  size_t SumOf(OwnedCounter ShardSpans::* counter) const;

  // Racy. Called before the lock is taken, it also fetches the line that the thread needs next: see
  // InsertInto.
  static bool HasObjects(const ShardSpans* spans) {
    return spans != nullptr && spans->free_objects.value() > 0;
  }

  // Takes objects, divided groups included, out of one shard's spans; returns how many.
  size_t RemoveFrom(const Shard& shard, void** objects, size_t n);
  // As RemoveFrom, by a thread that has the lock, which it frees.
  size_t RemoveAndUnlock(SpinLock& lock, ShardSpans& spans, Takeable take, void** objects, size_t n)
      TC_RELEASE(lock);
  // As RemoveFrom, for the first shard of `shards` (bit i: shard i), except for `own`, that has
  // objects for this source. The search begins where the last one ended.
  size_t RemoveFromOthers(const Shard& own, RefillSource source, uint64_t shards, void** objects,
                          size_t n);
  // As RemoveFrom, for `other`, as far as the source allows it. `new_spans`: how many there were
  // when the search began. Where another thread has the lock, it adds the shard to `busy` and takes
  // nothing; it waits if that is null.
  size_t RemoveFromOther(const Shard& own, const Shard& other, RefillSource source,
                         size_t new_spans, uint64_t* busy, void** objects, size_t n);
  // ShardSpans::adopter was `adopter`: the living thread of another shard than `own` has adopted
  // them.
  bool OtherAdopts(const Shard& own, uint8_t adopter) const;
  // Makes the thread of `own` the adopter of `spans` instead of `adopter`; false when another one
  // was faster.
  bool AdoptLocked(const Shard& own, ShardSpans& spans, uint8_t adopter) const;
  size_t RemoveFromNewSpan(Shard& own, Memory memory, void** objects, size_t n);
  // Writes the addresses of claimed objects before `end`, in reverse order of the claims; returns
  // the beginning of the written addresses.
  void** PrependClaimed(const Claims& claims, void** end) const;

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

  // Claims objects from the shard's spans until claims->wanted is 0 or less than a whole group,
  // until `claims` is full, or until no free objects are left.
  //
  // A claimed object belongs to the caller: its bit is clear, so that no other call hands it out,
  // and its span counts it as in use, so that the span stays. So turning the bits into addresses
  // needs no lock, and is done without.
  void ClaimLocked(ShardSpans& spans, Takeable take, Claims* claims);
  // As ClaimLocked, from a new span, which then goes into its list.
  void ClaimFromNewSpanLocked(ShardSpans& spans, Span* span, Claims* claims);
  // As ClaimLocked, from one span of spans whose lock is held; it stays in its list. The first
  // takes only whole groups; the second the lowest free objects; the third those in divided groups,
  // then the lowest.
  void ClaimWholeGroupsLocked(Span* span, Claims* claims);
  void ClaimLowestLocked(Span* span, Claims* claims);
  void ClaimDividedLocked(Span* span, Claims* claims);
  // Takes the bits `mask` out of word `w`.
  void ClaimBitsLocked(Span* span, size_t w, uint64_t mask, Claims* claims);

  // Finds the spans and bits of the first objects of `objects`. Stops at a pointer that cannot be
  // an object, which it describes in `finding`, and when `runs` is full. Returns how many it found.
  //
  // Takes no lock: the objects are still in use, so their spans stay what they are until this call
  // sets the objects' bits. That is not true of pointers that the program frees twice or never got.
  // So this function writes to no span, and InsertLocked checks whether the span is one of the
  // class and still at the same address.
  size_t GatherRuns(void* const* objects, size_t n, Runs* runs, Finding* finding) const;
  // Takes over the cache lines of objects that return to shards whose threads run on other CPUs.
  void TakeFarLines(const Shard& own, const Runs& runs, void* const* objects) const;
  // Sets the bits of the runs of shard `s`, whose spans of the class are `spans`. Then moves the
  // spans to the right lists, or, when all objects are free, to the front of `emptied`. Stops at a
  // run with an object that is not in use.
  Finding InsertLocked(ShardSpans& spans, size_t s, const Runs& runs, void* const* objects,
                       Span** emptied);
  // Takes the lock of shard `s` and calls InsertLocked. Returns false, and does nothing, when it
  // may not wait and another thread has the lock.
  bool InsertInto(size_t s, bool waits, bool is_last_part, const Runs& runs, void* const* objects,
                  Span** emptied, Finding* finding);
  // As InsertLocked, for a shard without spans of the class: the first of the objects is not in
  // use.
  TC_SLOW_PATH static Finding FirstOfShardSlow(size_t s, const Runs& runs, void* const* objects);
  // Whether `span`, which had `old_count` free objects and may have been split before some came
  // back, is now in the wrong list.
  bool MustRelist(const Span* span, uint32_t old_count, bool no_longer_split) const {
    const uint32_t count = span->free_count;
    // Numbers with the same highest bit have the same rank.
    const bool same_rank = (old_count ^ count) < (old_count & count);
    return !same_rank || no_longer_split || count == objects_per_span_;
  }
  // Moves `span` to the right list. Returns how many free objects leave with it when it is emptied,
  // else 0.
  size_t RelistLocked(ShardSpans& spans, Span* span, uint32_t old_count, bool no_longer_split,
                      Span** emptied);
  // The span's holes may be backed again.
  static void ForgetHolesLocked(ShardSpans& spans, Span* span) {
    if (span->hole_pages == 0) return;
    spans.hole_pages.Subtract(span->hole_pages);
    span->hole_pages = 0;
  }
  // Sets the bits of objects that were claimed; returns the first one whose bit is set already,
  // or kNoObject. Sets `*no_longer_split` when the span is split no longer.
  static constexpr size_t kNoObject = SIZE_MAX;
  size_t ReturnRangeLocked(Span* span, size_t first, size_t n, bool* no_longer_split);
  void CheckShard(const Shard& shard, ShardSpans& spans);
  SpinLock& LockOf(const Shard& shard) const { return shard.lock(size_class_); }
  // The first object of the run that is free already.
  TC_SLOW_PATH const void* FindDoubleFreeSlow(const Run& run, void* const* objects) const;

  Length span_pages() const { return Length(span_pages_); }

  // Constant after construction.
  const Parts& parts_;
  const uint32_t object_size_;
  const uint16_t span_pages_;
  const uint16_t objects_per_span_;
  const uint16_t words_per_span_;
  // Objects in the incomplete group at the end of a span; 0 if none is incomplete.
  const uint16_t tail_objects_;
  const SizeClass size_class_;
  const BitGroups groups_;
  // The bits of the last word for the objects that an incomplete group lacks.
  const uint64_t tail_padding_;

  // New spans so far, of all shards, and requests for one that failed: see ShardSpans::used_at.
  // Relaxed: it decides only whether a shard counts as idle.
  std::atomic<size_t> new_spans_{0};
};
// All lists are built when a process starts.
static_assert(sizeof(CentralFreeList) == kCacheLineSize);

}  // namespace tcmalloc
