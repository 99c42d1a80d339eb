// SPDX-License-Identifier: BSD-3-Clause
// The records of all objects: their call sites, and the objects in use with their sites and sizes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/counters.h"
#include "instruments/profiles/profile.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"
#include "os/stack_trace.h"
#include "page_heap/metadata_arena.h"

namespace tcmalloc {

// SiteTable: the call sites of a program, each with the counts of allocated and freed objects.
//
// A site is a stack of return addresses. It is made when its stack is first seen, and is never
// moved or freed: pointers to it stay valid. The figures in use of a site are the allocated figures
// minus the freed ones. A session, which begins when a profiler starts, counts from the figures of
// that moment.
//
// Called by: the heap profiler, for every allocation. It uses the arena and the memory that it is
// given, and nothing else of the heap. Synchronization: only atomics. Buckets are lists that grow
// at the front and never shrink: a site is complete before its address is stored (release), and a
// thread that follows the list has loaded that address (acquire). If two threads insert the same
// stack, the store of the second one fails; it searches again and finds the first one's site. Cost:
// a hash over the stack, and a walk along a short list. Memory: a table of pointers; sizeof(Site)
// and the return addresses for each site.
class Site {
 public:
  // Counts an object of this site. A thread that frees an object has seen its allocation.
  void Allocated(uint64_t bytes) {
    allocated_objects_.fetch_add(1, std::memory_order_relaxed);
    allocated_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void Freed(uint64_t bytes) {
    freed_objects_.fetch_add(1, std::memory_order_release);
    freed_bytes_.fetch_add(bytes, std::memory_order_release);
  }

  const uintptr_t* frames() const { return reinterpret_cast<const uintptr_t*>(this + 1); }
  size_t depth() const { return depth_; }

 private:
  friend class SiteTable;

  bool Is(const uintptr_t* frames, size_t depth, uint64_t hash) const;
  void Read(ProfileEntry* entry) const;

  // Constant once the site can be found.
  Site* next_ = nullptr;
  uint64_t hash_ = 0;
  size_t depth_ = 0;

  // Written by every thread that allocates or frees an object of the site. The freed figures are
  // written with release and read first, with acquire: a reader that sees a free sees its
  // allocation too, so the figures in use are never negative.
  std::atomic<uint64_t> allocated_objects_{0};
  std::atomic<uint64_t> allocated_bytes_{0};
  std::atomic<uint64_t> freed_objects_{0};
  std::atomic<uint64_t> freed_bytes_{0};
  // The freed figures when the session began. Relaxed: at that moment readers may see the old
  // figures.
  std::atomic<uint64_t> freed_objects_before_{0};
  std::atomic<uint64_t> freed_bytes_before_{0};
};

// The return addresses that distinguish call sites.
inline constexpr size_t kMaxSiteDepth = 64;
static_assert(kMaxSiteDepth <= kMaxStackDepth);

class SiteTable {
 public:
  explicit SiteTable(MetadataArena& arena) : arena_(arena) {}
  SiteTable(const SiteTable&) = delete;
  SiteTable& operator=(const SiteTable&) = delete;

  // Called before all other functions. False when there is no memory.
  [[nodiscard]] bool Prepare();

  // Returns the site of this stack, which is cut after kMaxSiteDepth addresses; null when there is
  // no memory for a new site. Once there are kMaxSites sites, a new stack belongs to the site that
  // has only its innermost address. Requires: no lock is held.
  Site* SiteOf(const uintptr_t* frames, size_t depth);

  // Begins a session. Requires: all objects in use were counted as freed. Objects that other
  // threads record at this moment may count for either session.
  void BeginSession();

  size_t num_sites() const { return num_sites_.value(); }

  // Writes the sites that have figures to `entries`, at most `max`, and returns how many. The
  // entries refer to the sites.
  size_t Read(ProfileEntry* entries, size_t max) const;

 private:
  static constexpr size_t kNumBuckets = size_t{1} << 15;

  Site* Find(std::atomic<Site*>& bucket, const uintptr_t* frames, size_t depth,
             uint64_t hash) const;

  // Constant after Prepare.
  MetadataArena& arena_;
  std::atomic<Site*>* buckets_ = nullptr;

  SharedCounter num_sites_;
};

// ObjectTable: the objects in use with their sites and sizes, in a hash table by address.
//
// A site's figures change together with the table, under the same lock: the objects in use of a
// site are always those that the table has for it, also in a forked child.
//
// Called by: the heap profiler, for every allocation and every free. Lock: LockRank::kProfile, one
// for each of kNumShards shards, never held during a system call. Cost: one lock, a few adjacent
// slots, two or four atomic additions; a shard that is three quarters full is copied under its lock
// to one of twice the size. Memory: kBytesPerSlot for every slot. Once a shard has grown, three to
// six of eight slots are used, so an object in use takes 32 to 64 bytes on 64-bit machines, and two
// thirds of that on 32-bit ones. It shrinks only when it is cleared.
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

  // A shard accumulates traffic up to this many bytes before Insert or Remove reports it: so the
  // sum of the reports lags by at most this much per shard.
  void SetTrafficThreshold(uint64_t bytes) {
    traffic_threshold_.store(bytes, std::memory_order_relaxed);
  }

  // Records an object in use. If the object is in the table already, its free was not recorded, and
  // it first counts as freed. False when there is no memory; then nothing changes. Adds to
  // `traffic`. Values above kMaxBytes and kMaxMark are clamped to these. Requires: no lock is held.
  bool Insert(uintptr_t object, Site* site, uint64_t bytes, Traffic* traffic, uint32_t mark = 0);
  // Records a free. False when the object is not in the table.
  bool Remove(uintptr_t object, Traffic* traffic);
  // Returns the data that Insert recorded for an object. False when it is not in the table.
  struct Record {
    const Site* site = nullptr;
    uint64_t bytes = 0;
    uint32_t mark = 0;
  };
  bool Find(uintptr_t object, Record* record);
  // Counts all objects as freed, and frees the memory; does not report traffic. Requires: no lock
  // is held.
  void Clear();

  // Approximate while other threads insert and remove.
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
    uint64_t mark : 24;  // for the caller of Insert
  };

 public:
  static constexpr size_t kBytesPerSlot = sizeof(Slot);
  static constexpr uint64_t kMaxBytes = (uint64_t{1} << 40) - 1;
  static constexpr uint32_t kMaxMark = (uint32_t{1} << 24) - 1;

 private:
  // Slots in 2^n bytes of memory; a slot without an object is zero. An object is in the slot of its
  // hash, or in the first free slot after that, cyclically.
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
  // Spreads the 32 bits of the hash below those of the shard evenly over the slots.
  static size_t HomeOf(uint64_t hash, size_t capacity) {
    return static_cast<size_t>((((hash >> 24) & 0xffffffff) * capacity) >> 32);
  }
  // Returns the slot of the object, or the free slot for it. Requires: some slot is free.
  static Slot& SlotOf(const Slots& slots, uintptr_t object, uint64_t hash);

  bool TryInsertLocked(Shard& shard, uint64_t hash, const Slot& fresh, size_t most,
                       Traffic* traffic) TC_REQUIRES(shard.lock);
  // Counts the object in the slot as freed; the slot stays.
  static void CountFreedLocked(Shard& shard, const Slot& slot) TC_REQUIRES(shard.lock);
  void ReportTrafficLocked(Shard& shard, Traffic* traffic) TC_REQUIRES(shard.lock);

  Slots NewSlots(size_t bytes);
  void FreeSlots(const Slots& slots);

  // Constant after construction.
  MetadataArena& arena_;
  // Written when a session begins, read under a shard's lock. Relaxed, since it may take effect
  // late.
  std::atomic<uint64_t> traffic_threshold_{0};
  std::array<Shard, kNumShards> shards_;
};

}  // namespace tcmalloc
