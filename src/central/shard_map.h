// SPDX-License-Identifier: BSD-3-Clause
// ShardMap: the shards, and which of them serves the calling thread.
//
// CPUs get their shards in the order in which they first ask: a process that may run on four of a
// hundred CPUs has four shards.
//
// Why shards. Two threads on two CPUs that each allocate and free 3 MiB, again and again, took
// their memory from common lists. They spent half of their time (on CPUs with a common last-level
// cache) to four fifths (without) in touching objects that had been in the other CPU's cache.
//
// Invariants
//   D1  A pointer to a shard, or to a shard's spans of a class, is written once, with lock_ held,
//       by a release store. A reader loads it with acquire, and so sees a constructed object.
//   D2  A shard's home is registered with the page heap before the shard's pointer is stored here.
//   D3  While the locks are held for fork (ForEachLock) only the forking thread constructs objects,
//       and their locks are held for fork too. So ForEachLock visits, before and after fork,
//       exactly the locks that are held.
// Thread safety: any. Which shard a thread uses affects only speed, so relaxed loads decide it.
// Lock: LockRank::kShards, for the store of a pointer. Memory: the arena's, for good.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/size_classes.h"
#include "base/tuning.h"
#include "central/shard.h"
#include "central/span_owner.h"
#include "os/spinlock.h"
#include "page/metadata_arena.h"
#include "page/page_heap.h"

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

  // The calling thread's shard; the first one when there is no memory for a new one. Cost: that of
  // Processor, and two loads.
  Shard& Current() {
    const int processor = processor_();
    if (processor < 0) return first_;
    std::atomic<uint8_t>& entry = entries_[static_cast<size_t>(processor) % kMaxProcessors];
    const uint8_t known = entry.load(std::memory_order_relaxed);
    const size_t number = (known != 0 ? known : Assign(entry)) - size_t{1};
    Shard* const shard = At(number);
    return shard != nullptr ? *shard : Ensure(number);
  }
  // The shard with that number, constructed if missing; the first one when there is no memory.
  // Requires: number is less than the number of shards.
  TC_SLOW_PATH Shard& Ensure(size_t number) TC_EXCLUDES(lock_);

  // Null while the shard does not exist. Requires: number < kMost.
  Shard* At(size_t number) const { return shards_[number].load(std::memory_order_acquire); }
  // The class's spans in the shard with that number; null where either does not exist.
  ShardSpans* SpansAt(size_t number, SizeClass c) const {
    const Shard* const shard = At(number);
    return shard == nullptr ? nullptr : shard->spans(c);
  }
  // The shard's spans of the class, constructed if missing; null when there is no memory.
  ShardSpans* EnsureSpans(Shard& shard, SizeClass c) TC_EXCLUDES(lock_);

  // Calls f(shard) for each existing shard.
  template <typename F>
  void ForEach(F f) const {
    for (size_t i = 0; i < num_shards_; ++i) {
      if (Shard* const shard = At(i)) f(*shard);
    }
  }
  // Calls f(shard) for each shard but `own`, starting after it, until a call returns something
  // other than 0, which is returned.
  template <typename F>
  size_t FirstOfOthers(const Shard& own, F f) const {
    for (size_t i = 1; i < num_shards_; ++i) {
      Shard* const shard = At((own.number() + i) % num_shards_);
      if (shard == nullptr) continue;
      if (const size_t result = f(*shard)) return result;
    }
    return 0;
  }

  // Calls f(lock) for every lock except those of PageHeap::ForEachLock. While the first one is
  // held, only its holder adds locks (D3).
  template <typename F>
  void ForEachLock(F f) {
    f(lock_);
    ForEach([&f](Shard& shard) { shard.ForEachClassLock(f); });
  }

 private:
  friend struct FieldTable;

  // CPUs with higher numbers share entries.
  static constexpr size_t kMaxProcessors = 1024;

  uint8_t Assign(std::atomic<uint8_t>& entry);
  // The object of `slot`. Where that is null: constructs T(arguments...), calls prepare(T&), and
  // stores it. Null when there is no memory.
  template <typename T, typename Prepare, typename... Arguments>
  T* BuildOnce(std::atomic<T*>& slot, Prepare prepare, Arguments... arguments) TC_EXCLUDES(lock_);

  const Processor processor_;
  const size_t num_shards_;
  PageHeap& page_heap_;
  MetadataArena& arena_;
  SpinLock lock_{LockRank::kShards};
  // D1. Written with lock_ held.
  std::array<std::atomic<Shard*>, kMost> shards_ = {};
  Shard first_{0};
  // The number of CPUs that have asked. When two threads on one CPU ask at once, a number is
  // skipped.
  std::atomic<size_t> next_{0};
  // The CPU's shard + 1; 0: it has not asked yet.
  std::array<std::atomic<uint8_t>, kMaxProcessors> entries_ = {};
};

}  // namespace tcmalloc
