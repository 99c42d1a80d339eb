// SPDX-License-Identifier: BSD-3-Clause
// Shards of the central free lists. RankedSpans: the lists of one size class in one shard.
// SpanOwner: which class and shard a span belongs to. Shard, ShardMap: what a shard has, and which
// one serves a thread.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/compiler.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/intrusive.h"
#include "base/size_classes.h"
#include "base/tuned.h"
#include "os/spinlock.h"
#include "page_heap/hugepage.h"
#include "page_heap/metadata_arena.h"
#include "page_heap/page_heap.h"
#include "page_heap/span.h"
#include "page_heap/span_home.h"

namespace tcmalloc {

// RankedSpans: the spans of one size class that have both free objects and objects in use. There is
// a list for each power of two of free objects: fine enough to distinguish a nearly full span from
// a nearly empty one, coarse enough that a span rarely changes lists. Split spans (without a whole
// line batch free) are in lists of their own. Thread safety: none; the owner's lock guards it.
// Cost: O(1).
class RankedSpans {
 public:
  static constexpr size_t kNumRanks = 15;
  static constexpr size_t kMaxFreeCount = (size_t{1} << (kNumRanks - 1)) - 1;

  // Which list a span is in.
  using Place = size_t;
  static constexpr Place kNowhere = 0;
  // Requires: 0 < free_count <= kMaxFreeCount.
  static Place PlaceFor(size_t free_count, bool split) {
    return static_cast<size_t>(std::bit_width(free_count)) + (split ? kNumRanks : 0);
  }

  void Move(Span* span, Place from, Place to) {
    if (from == to) return;
    if (from != kNowhere) {
      lists_[from].Remove(span);
      if (lists_[from].empty()) not_empty_ &= ~(uint32_t{1} << from);
    }
    if (to != kNowhere) {
      lists_[to].Prepend(span);
      not_empty_ |= uint32_t{1} << to;
    }
  }

  // A span of the lowest rank that has one; null when there is none.
  Span* FullestNotSplit() const { return FirstOf(not_empty_ & kNotSplit); }
  Span* FullestSplit() const { return FirstOf(not_empty_ & ~kNotSplit); }

  // Calls f(span, place) for every span.
  template <typename F>
  void ForEach(F f) const {
    for (Place place = 0; place < lists_.size(); ++place) {
      for (Span* span = lists_[place].first(); span != nullptr; span = lists_[place].Next(span)) {
        f(span, place);
      }
    }
  }

 private:
  static constexpr uint32_t kNotSplit = (uint32_t{1} << kNumRanks) - 1;

  Span* FirstOf(uint32_t lists) const {
    return lists == 0 ? nullptr : lists_[static_cast<size_t>(std::countr_zero(lists))].first();
  }

  // Bit i: lists_[i] has a span.
  uint32_t not_empty_ = 0;
  std::array<IntrusiveList<Span>, 2 * kNumRanks> lists_;
};

// SpanOwner: the owner of a span of small objects: the size class, the shard, and whether the
// central free list of the class counts the span as its own at the moment. It is a value of 16 bits
// in Span::owner, which the page layer does not interpret.
//
// The states of a span's owner.
//   none                    free, or a large object
//   class, shard            being made; or emptied, until the call that emptied it ends
//   class, shard, counted   its objects may be in use
//   no class, shard         emptied: in a SpanCache, or on its way there
//
// Synchronization. The thread that makes or empties the span writes the owner. While the class is
// set, it holds the lock of the class and shard that the owner names. If a thread that holds this
// lock reads a counted owner of the same class and shard, the span stays until it releases the
// lock. Without the lock the owner is only a hint, except for the thread that has one of the span's
// objects: class and shard do not change before that object is freed.

class SpanOwner {
 public:
  static constexpr int kShardBits = 6;
  static constexpr size_t kMaxShards = size_t{1} << kShardBits;

  // None.
  constexpr SpanOwner() : bits_(0) {}
  // Requires: shard < kMaxShards.
  constexpr SpanOwner(SizeClass c, size_t shard, bool counted = false)
      : bits_(static_cast<uint16_t>((counted ? kCounted : 0) | Index(c) << kShardBits | shard)) {}

  static SpanOwner Of(const Span* span) {
    return SpanOwner(span->owner.load(std::memory_order_relaxed));
  }
  void StoreIn(Span* span) const { span->owner.store(bits_, std::memory_order_relaxed); }

  // kNone: the span has no class.
  constexpr SizeClass size_class() const {
    return static_cast<SizeClass>((bits_ & ~kCounted) >> kShardBits);
  }
  constexpr size_t shard() const { return bits_ & (kMaxShards - 1); }
  // False for a span in a SpanPool: the number of the pool has no class.
  constexpr bool counted() const { return bits_ >= (kCounted | size_t{1} << kShardBits); }

  constexpr bool Is(SizeClass c, size_t shard) const {
    return (bits_ | kCounted) == SpanOwner(c, shard, true).bits_;
  }
  constexpr bool operator==(const SpanOwner&) const = default;

 private:
  // With a class. Without one it is the number of a SpanPool, Span::kFirstPool or above.
  static constexpr uint16_t kCounted = 1 << 15;
  static_assert(kCounted == Span::kFirstPool);
  static_assert(kNumSizeClasses << kShardBits <= kCounted);

  explicit constexpr SpanOwner(uint16_t bits) : bits_(bits) {}

  uint16_t bits_;
};

// Shard: the part of the central free lists that serves one thread, or a few when there are many:
// the spans of each size class, and what the page heap keeps for them (SpanHome). A thread keeps
// its shard to its end, so no other thread gets objects on its cache lines, and others do not wait
// for its locks. ShardMap constructs and finds shards; CentralFreeList uses what is in them.
//
// States. A shard has no cache; or the caches of one or more living threads; or only caches that
// ended threads left for new ones. While none of its threads is alive, other threads may take all
// of its free objects.

// The spans of one size class in one shard. Guarded by Shard::lock of the class.
struct alignas(kCacheLineSize) ShardSpans {
  // What each call touches comes first, in one cache line with the head of `spans`.
  // While no living thread has the shard: one more than the number of the shard whose thread
  // has adopted these spans; 0: no thread has yet. Out of date once that shard has no thread
  // either. Written with the lock held, by compare-and-swap of what was read before that, so that
  // two threads do not adopt them at once. Relaxed: the lock orders what they take.
  std::atomic<uint8_t> adopter{0};
  // The distance from this shard, in the circle of numbers, to the shard that last served a thread
  // of this one: that shard is likely to have more objects. The threads of this shard write it.
  // Relaxed: it decides only where a search begins.
  std::atomic<uint8_t> last_source{0};
  // Written with the lock held; read racily for statistics, and for a check without the lock
  // whether the shard has free objects.
  OwnedCounter free_objects;
  OwnedCounter num_spans;
  OwnedCounter hole_pages;
  // CentralFreeList's count of new spans when a thread of the shard last took objects here.
  // Written by those threads, read by others that look for idle shards. Relaxed: no other data
  // depends on it.
  std::atomic<size_t> used_at{0};
  // Has a lock or atomics of its own.
  TouchHistory touched;
  RankedSpans spans;
};

// The locks of one shard: one for each size class, and one for the kept spans, at the index of
// SizeClass::kNone. They lie close together, since fork writes to all of them: so the child copies
// only the few pages that have locks.
struct alignas(kCacheLineSize) ShardLocks {
  struct Lock : SpinLock {
    constexpr Lock() : SpinLock(LockRank::kShard) {}
  };
  std::array<Lock, kNumSizeClasses> locks;
};

class Shard {
 public:
  // `threadless`: the map's set of shards without a living thread, which this one joins.
  Shard(size_t number, ShardLocks& locks, std::atomic<uint64_t>& threadless)
      : number_(number), locks_(&locks), threadless_(threadless), home_(lock(SizeClass::kNone)) {
    threadless_.fetch_or(bit(), std::memory_order_relaxed);
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Less than ShardMap::kMost.
  size_t number() const { return number_; }
  // The shard in a set of shards.
  uint64_t bit() const { return uint64_t{1} << number_; }

  // The lock of the spans of a class; SizeClass::kNone: of the kept spans.
  SpinLock& lock(SizeClass c) const { return locks_->locks[Index(c)]; }
  ShardLocks& locks() const { return *locks_; }
  SpanHome& home() { return home_; }

  // The thread caches that name the shard and that a living thread has. Racy for other callers than
  // the registry.
  size_t num_threads() const { return num_threads_.load(std::memory_order_relaxed); }
  // The CPU on which a thread of the shard last took objects; negative when it is not known. Its
  // hardware caches have what passes through the shard.
  int cpu() const { return cpu_.load(std::memory_order_relaxed); }
  void set_cpu(int cpu) {
    // Threads that free the shard's objects read this cache line.
    if (cpu != this->cpu()) cpu_.store(cpu, std::memory_order_relaxed);
  }
  // Requires: the calls are serialized.
  void AddThread() {
    if (num_threads() == 0) threadless_.fetch_and(~bit(), std::memory_order_relaxed);
    num_threads_.store(num_threads() + 1, std::memory_order_relaxed);
  }
  void RemoveThread() {
    num_threads_.store(num_threads() - 1, std::memory_order_relaxed);
    if (num_threads() == 0) threadless_.fetch_or(bit(), std::memory_order_relaxed);
  }

  // Null until the shard has a span of the class.
  ShardSpans* spans(SizeClass c) const { return spans_[Index(c)].load(std::memory_order_acquire); }

 private:
  friend class ShardMap;

  const size_t number_;
  ShardLocks* const locks_;
  std::atomic<uint64_t>& threadless_;
  // Relaxed: it decides only which shard serves a thread.
  std::atomic<size_t> num_threads_{0};
  // Relaxed: it decides only whether cache lines are likely to be in the CPU's cache.
  std::atomic<int> cpu_{-1};
  // Written by ShardMap, each once; read without a lock. Release and acquire: a thread that loads a
  // pointer sees a constructed object.
  std::array<std::atomic<ShardSpans*>, kNumSizeClasses> spans_ = {};
  SpanHome home_;
};

// The largest number of shards of the central free lists. If there are more threads, they share
// shards, and with them cache lines. 64 threads share 95 % of the lines of their 8-byte objects
// with 16 shards, and 1 % with 64 shards (decision 0040).
inline constexpr size_t kMaxShards = Tuned(64, 1, 64);
// How many shards also serve CPUs, at most: a thread without a cache, and one that handles a large
// object, uses the shard of its CPU. There are few, since the pool of large objects in each keeps
// memory (decision 0038).
inline constexpr size_t kMaxShardsOfCpus = Tuned(16, 1, kMaxShards);

// ShardMap: the shards, and which of them serves a thread.
//
// A thread cache claims a shard when it is made, and keeps it as long as it exists. It claims the
// lowest shard without a cache, or else one with the fewest caches. A thread that inherits a cache
// inherits the shard. So the memory that an ended thread left serves the next one, and there are no
// more shards than threads at one time.
//
// A thread without a cache uses the shard of its CPU, and so do large objects: their pools hold
// more, and there should not be one for each thread. CPUs get their shards in the order in which
// they first ask: a process that may run on four of a hundred CPUs has four.
//
// Why shards. Two threads on two CPUs that each allocate and free 3 MiB, again and again, took
// their memory from common lists. They spent half of their time (on CPUs with a common last-level
// cache) or four fifths of it (without one) in touching objects that had been in the other CPU's
// cache. Each thread has a shard, since threads that moved between CPUs shared most of their cache
// lines when CPUs had the shards (decision 0040).
//
// Invariants
//   D1  A pointer to a shard, or to a shard's spans of a class, is written once, with lock_ held,
//       by a release store. A reader loads it with acquire, and so sees a constructed object.
//   D2  A shard's home is registered with the page heap before the shard's pointer is stored here.
//   D3  While the locks are held for fork (ForEachLock) no shard is added, and only the forking
//       thread adds a shard's spans of a class.
//   D4  num_caches() of a shard is the number of calls of TryClaim that returned it less those of
//       Return; num_threads() is at most that.
// Thread safety: any thread. The choice of a shard affects only speed, so relaxed loads suffice for
// it. Locks: LockRank::kShards, for the store of a pointer; ShardLocks. Memory: the arena's, for
// good.

class ShardMap {
 public:
  // The number of the CPU that the calling thread runs on; negative when it is not known.
  using Processor = int (*)();

  static constexpr size_t kMost = SpanOwner::kMaxShards;
  static constexpr size_t kDefault = kMaxShards;
  static_assert(kDefault <= kMost);

  // Constructs the first shard; there will be at most `num_shards`, from 1 to kMost.
  ShardMap(PageHeap& page_heap, MetadataArena& arena, Processor processor,
           size_t num_shards = kDefault);
  ShardMap(const ShardMap&) = delete;
  ShardMap& operator=(const ShardMap&) = delete;

  // The shard of the CPU that the calling thread runs on; the first one when there is no memory for
  // a new one. Cost: that of Processor, and two loads.
  Shard& Current() {
    const int processor = processor_();
    if (processor < 0) return first_;
    std::atomic<uint8_t>& entry = entries_[static_cast<size_t>(processor) % kMaxProcessors];
    const uint8_t known = entry.load(std::memory_order_relaxed);
    const size_t number = (known != 0 ? known : Assign(entry)) - size_t{1};
    Shard* const shard = At(number);
    return shard != nullptr ? *shard : Ensure(number);
  }
  // The CPU that the calling thread runs on; negative when it is not known.
  int CurrentCpu() const { return processor_(); }

  // Claims a shard for a new thread cache, which keeps it until Return: the lowest shard without a
  // cache, else the one with the fewest. Returns null when that shard does not exist yet
  // (MakeNext). With `existing_only`, chooses among existing shards. Requires: the calls of these
  // three are serialized.
  Shard* TryClaim(bool existing_only = false);
  // Returns the shard of a cache that ends.
  void Return(const Shard& shard) { --num_caches_[shard.number()]; }
  size_t num_caches(const Shard& shard) const { return num_caches_[shard.number()]; }
  // Constructs the lowest shard that does not exist; false when there is none or no memory for it.
  bool MakeNext() TC_EXCLUDES(lock_);

  // The shard with that number, constructed if missing; the first one when there is no memory, and
  // while the calling thread forks. Requires: number is less than the number of shards.
  TC_SLOW_PATH Shard& Ensure(size_t number) TC_EXCLUDES(lock_);

  // Null while the shard does not exist. Requires: number < kMost.
  Shard* At(size_t number) const { return shards_[number].load(std::memory_order_acquire); }
  // The shard's spans of the class, constructed if missing; null when there is no memory.
  ShardSpans* EnsureSpans(Shard& shard, SizeClass c) TC_EXCLUDES(lock_);

  // Calls f(shard) for each existing shard.
  template <typename F>
  void ForEach(F f) const {
    for (size_t i = 0; i < num_shards_; ++i) {
      CountSteps(Step::kShardVisited);
      if (Shard* const shard = At(i)) f(*shard);
    }
  }
  // Sets of shards; bit i: shard i. All that may exist, and those without a living thread. Racy.
  uint64_t all() const { return ~uint64_t{0} >> (kMost - end_.load(std::memory_order_relaxed)); }
  uint64_t threadless() const { return threadless_.load(std::memory_order_relaxed); }
  // Calls f(shard) for each existing shard of the set, from number `begin` on and then from 0,
  // until a call returns something other than 0, which is returned. Requires: begin < kMost.
  template <typename F>
  size_t FirstOf(uint64_t shards, size_t begin, F f) const {
    static_assert(kMost == 64);
    for (uint64_t left = std::rotr(shards, static_cast<int>(begin)); left != 0; left &= left - 1) {
      Shard* const shard = At((begin + static_cast<size_t>(std::countr_zero(left))) % kMost);
      CountSteps(Step::kShardSearched);
      if (shard == nullptr) continue;
      if (const size_t result = f(*shard)) return result;
    }
    return 0;
  }

  // Calls f(lock) for the map's lock, then for those of each shard. While the first is held, there
  // are no more (D3).
  template <typename F>
  void ForEachLock(F f) {
    f(lock_);
    ForEach([&f](const Shard& shard) {
      for (SpinLock& lock : shard.locks().locks) f(lock);
    });
  }

 private:
  // CPUs with higher numbers share entries.
  static constexpr size_t kMaxProcessors = 1024;

  // Constructs the locks of the shard with that number.
  ShardLocks& MakeLocks(size_t number) { return *new (locks_[number]) ShardLocks; }
  uint8_t Assign(std::atomic<uint8_t>& entry);
  // The object of `slot`. Where that is null: stores construct(memory). Null when there is no
  // memory.
  template <typename T, typename Construct>
  T* BuildOnce(std::atomic<T*>& slot, Construct construct) TC_EXCLUDES(lock_);

  const Processor processor_;
  const size_t num_shards_;
  PageHeap& page_heap_;
  MetadataArena& arena_;
  SpinLock lock_{LockRank::kShards};
  // D1. Written with lock_ held.
  std::array<std::atomic<Shard*>, kMost> shards_ = {};
  // One more than the highest number of a shard. Written with lock_ held; relaxed: a thread that
  // reads an old one does not find the newest shard yet.
  std::atomic<size_t> end_{1};
  // The shards without a living thread. Relaxed: it decides only where a thread looks.
  std::atomic<uint64_t> threadless_{0};
  Shard first_{0, MakeLocks(0), threadless_};
  // How many caches each shard has. The counters of all shards lie together, since TryClaim reads
  // all of them.
  std::array<uint32_t, kMost> num_caches_ = {};
  // How many CPUs have got a shard's number. When two threads on one CPU ask at once, a number is
  // skipped.
  std::atomic<size_t> next_{0};
  // The number of each CPU's shard, plus 1; 0 while no thread on that CPU has asked for one.
  std::array<std::atomic<uint8_t>, kMaxProcessors> entries_ = {};
  // The locks of the shards that exist; the others take no memory. Last, so that what every process
  // writes is on few pages.
  alignas(ShardLocks) unsigned char locks_[kMost][sizeof(ShardLocks)];
};

}  // namespace tcmalloc
