// SPDX-License-Identifier: BSD-3-Clause
// ObjectTable: which objects are in use, of which site and how large: a hash table by address.
//
// A site's figures change together with the table, under the same lock: what a site has in use is
// at any moment what the table holds of it, also in a forked child.
//
// Called by: the heap profiler, for every allocation and every free. Lock: LockRank::kProfile, one
// for each of kNumShards parts, never held over a system call. Cost: one lock, a few neighbouring
// slots, two or four atomic additions; a part that is three quarters full is copied to one of twice
// the size under its lock. Memory: kBytesPerSlot for every slot, of which three to six in eight are
// used once a part has grown: 32 to 64 bytes per object in use on 64-bit machines, two thirds of
// that on 32-bit ones. It shrinks only when it is cleared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "os/spinlock.h"
#include "page/metadata_arena.h"
#include "profile/site_table.h"

namespace tcmalloc {

class ObjectTable {
 public:
  static constexpr size_t kNumShards = 256;

  // Bytes that were recorded as allocated and freed.
  struct Traffic {
    uint64_t allocated_bytes = 0;
    uint64_t freed_bytes = 0;
    bool Any() const { return (allocated_bytes | freed_bytes) != 0; }
  };

  explicit ObjectTable(MetadataArena& arena) : arena_(arena) {}
  ObjectTable(const ObjectTable&) = delete;
  ObjectTable& operator=(const ObjectTable&) = delete;

  // How much traffic a part keeps to itself before Insert or Remove tells of it. Whoever sums up
  // what they tell is behind by at most so much per part.
  void SetTrafficThreshold(uint64_t bytes) {
    traffic_threshold_.store(bytes, std::memory_order_relaxed);
  }

  // An object in use, and its site's. One that is there already, whose end nobody told, is freed.
  // False when there is no memory: then nothing happened. Adds to `traffic`. No lock may be held.
  // Bytes beyond kMaxBytes and marks beyond kMaxMark count as that.
  bool Insert(uintptr_t object, Site* site, uint64_t bytes, Traffic* traffic, uint32_t mark = 0);
  // It is freed. False when it is not there.
  bool Remove(uintptr_t object, Traffic* traffic);
  // What was said of an object when it was inserted. False when it is not there.
  struct Record {
    const Site* site = nullptr;
    uint64_t bytes = 0;
    uint32_t mark = 0;
  };
  bool Find(uintptr_t object, Record* record);
  // Frees all of them, and the memory, without a word about traffic. No lock may be held.
  void Clear();

  // Of the objects that there are, or were a moment ago.
  size_t num_objects();

  // Calls f(lock) for every lock.
  template <typename F>
  void ForEachLock(F f) {
    for (Shard& shard : shards_) f(shard.lock);
  }

 private:
  struct Slot {
    uintptr_t object;  // 0: free
    Site* site;
    uint64_t bytes : 40;
    uint64_t mark : 24;  // of the object's, which who inserts it understands
  };

 public:
  static constexpr size_t kBytesPerSlot = sizeof(Slot);
  static constexpr uint64_t kMaxBytes = (uint64_t{1} << 40) - 1;
  static constexpr uint32_t kMaxMark = (uint32_t{1} << 24) - 1;

 private:
  // Slots in memory of 2^n bytes, all of it zero where there is no object. An object is in the slot
  // that its hash says, or in the first free one behind it, counted round.
  struct Slots {
    Slot* start = nullptr;
    size_t bytes = 0;
    size_t capacity = 0;
  };

  struct alignas(kCacheLineSize) Shard {
    SpinLock lock{LockRank::kProfile};
    Slots slots TC_GUARDED_BY(lock);
    size_t used TC_GUARDED_BY(lock) = 0;
    Traffic traffic TC_GUARDED_BY(lock);
  };

  static uint64_t HashOf(uintptr_t object) { return (object >> 3) * 0x9e3779b97f4a7c15; }
  Shard& ShardOf(uint64_t hash) { return shards_[hash >> 56]; }
  // The 32 bits below those of the shard, spread evenly over the slots.
  static size_t HomeOf(uint64_t hash, size_t capacity) {
    return static_cast<size_t>((((hash >> 24) & 0xffffffff) * capacity) >> 32);
  }
  // The slot of the object, or the free one where it would be. Requires: there is a free one.
  static Slot& SlotOf(const Slots& slots, uintptr_t object, uint64_t hash);

  bool TryInsertLocked(Shard& shard, uint64_t hash, const Slot& fresh, size_t most,
                       Traffic* traffic) TC_REQUIRES(shard.lock);
  // Frees what is in the slot, not the slot.
  static void CountFreedLocked(Shard& shard, const Slot& slot) TC_REQUIRES(shard.lock);
  void ReportTrafficLocked(Shard& shard, Traffic* traffic) TC_REQUIRES(shard.lock);

  Slots NewSlots(size_t bytes);
  void FreeSlots(const Slots& slots);

  // Constant after construction.
  MetadataArena& arena_;
  // Written by who begins a session, read with the lock of a part: when is of no importance.
  std::atomic<uint64_t> traffic_threshold_{0};
  std::array<Shard, kNumShards> shards_;
};

}  // namespace tcmalloc
