// SPDX-License-Identifier: BSD-3-Clause
// ShardMap: the shards, and which of them serves a thread.
//
// A thread cache claims a shard when it is made, and names it as long as it exists: the lowest one
// without a cache, else one with the fewest. A thread that inherits a cache inherits the shard. So
// the memory that an ended thread left serves the next one, and there are no more shards than
// threads at one time.
//
// A thread without a cache uses the shard of its CPU, and so do large objects: their pools hold
// more, and there should not be one for each thread. CPUs get their shards in the order in which
// they first ask: a process that may run on four of a hundred CPUs has four.
//
// Why shards. Two threads on two CPUs that each allocate and free 3 MiB, again and again, took
// their memory from common lists. They spent half of their time (on CPUs with a common last-level
// cache) to four fifths (without) in touching objects that had been in the other CPU's cache. Why
// one for each thread: threads that moved between CPUs shared most of their lines (decision 0040).
//
// Invariants
//   D1  A pointer to a shard, or to a shard's spans of a class, is written once, with lock_ held,
//       by a release store. A reader loads it with acquire, and so sees a constructed object.
//   D2  A shard's home is registered with the page heap before the shard's pointer is stored here.
//   D3  While the locks are held for fork (ForEachLock) no shard is added, and only the forking
//       thread adds a shard's spans of a class.
//   D4  num_caches() of a shard is the number of calls of TryClaim that returned it less those of
//       Return; num_threads() is at most that.
// Thread safety: any. Which shard a thread uses affects only speed, so relaxed loads decide it.
// Locks: LockRank::kShards, for the store of a pointer; ShardLocks.
// Memory: the arena's, for good.
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
#include "base/size_classes.h"
#include "base/tuning.h"
#include "central/shard.h"
#include "central/span_owner.h"
#include "os/spinlock.h"
#include "page_heap/metadata_arena.h"
#include "page_heap/page_heap.h"

namespace tcmalloc {

class ShardMap {
 public:
  // The number of the CPU that the calling thread runs on; negative when it is not known.
  using Processor = int (*)();

  static constexpr size_t kMost = SpanOwner::kMaxShards;
  static constexpr size_t kDefault = kTuning.shards.max;
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

  // For a new thread cache, which names the shard until Return: the lowest shard without a cache,
  // else the one with the fewest; null when that one does not exist yet (MakeNext). With
  // `existing_only`, of those that exist. Requires: the calls of these three are serialized.
  Shard* TryClaim(bool existing_only = false);
  // For a cache that ends.
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
  friend struct FieldTable;

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
  // The locks of the shards that exist; the others take no memory.
  alignas(ShardLocks) unsigned char locks_[kMost][sizeof(ShardLocks)];
  Shard first_{0, MakeLocks(0), threadless_};
  // See TryClaim. In one place, since it looks at all.
  std::array<uint32_t, kMost> num_caches_ = {};
  // The number of CPUs that have asked. When two threads on one CPU ask at once, a number is
  // skipped.
  std::atomic<size_t> next_{0};
  // The CPU's shard + 1; 0: it has not asked yet.
  std::array<std::atomic<uint8_t>, kMaxProcessors> entries_ = {};
};

}  // namespace tcmalloc
