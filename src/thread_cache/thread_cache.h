// SPDX-License-Identifier: BSD-3-Clause
// ThreadCache: one thread's free objects, in a bin per size class, and the owner's slow paths:
// refill, overflow, garbage collection, flush.
//
// Role. It moves objects between the bins and the central cache. While it calls the central cache,
// the page heap or the arena, the objects in flight are on the stack, the bins are consistent and
// `busy` is clear: a system call never delays a thread that wants to take the cache, and an
// allocation in a signal handler for SIGABRT finds consistent bins.
//
// Size. claimed_bytes() is the bytes that the bins' limits allow plus the memory of their arrays.
// It stays below MaxClaim() because growth is refused. A refusal causes a garbage collection, which
// shrinks bins that hold more than they use and asks the registry for a larger max_bytes(). While
// nothing is unclaimed, MaxClaim() exceeds max_bytes() by a part of the claims that no objects
// filled at the last collection (CacheBudget::Excess), and collections are rarer: the cache
// does not take the registry's lock for each refusal.
//
// Synchronization. The owner accesses everything but the links inside an access section of its
// slot. A thread that has taken the cache (registry.h) may access it, too. What one section read
// may be outdated in the next: another thread may have emptied the cache between the two. The
// registry's lock guards the links and max_bytes. Cost. There is one refill or overflow per batch,
// which takes a central lock and a few nanoseconds per object.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive.h"
#include "base/sampling_gap.h"
#include "base/size_classes.h"
#include "base/tuned.h"
#include "central/central_cache.h"
#include "page_heap/metadata_arena.h"
#include "thread_cache/bin_policy.h"
#include "thread_cache/bin_table.h"
#include "thread_cache/cache_budget.h"
#include "thread_cache/thread_slot.h"

namespace tcmalloc {

class Registry;

// Moves the objects of a chain to the central cache and frees its arrays; returns the objects'
// bytes. No lock may be held.
size_t ReturnArrays(BinArraysInFlight* arrays, CentralCache& central, MetadataArena& arena);

// A cache that claims kReturnedFromBytes or more returns its objects above kReturnedAboveBytes
// before it gets memory that the OS has not backed. Two threads that replace objects of 32 to 64
// KiB need 15 % more memory without this rule, and no more memory with it. rptest needs 10 % more
// with 1 MiB and 8 KiB, and 2 % more with these values (decision 0049).
inline constexpr size_t kReturnedFromBytes = Tuned(256_KiB, 64_KiB, 64_MiB);
inline constexpr size_t kReturnedAboveBytes = Tuned(1_KiB, 1_KiB, kLongObjectBytes);

class ThreadCache {
 public:
  // Creates a cache without an owner (see HandTo).
  ThreadCache(CentralCache& central, MetadataArena& arena, Registry& registry);
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

  // The owner's slow path of an allocation: an object of class `c`; null when the OS provides no
  // memory.
  void* Allocate(SizeClass c);
  // The owner's slow path of a free.
  void Free(SizeClass c, void* object);
  // As Free, but moves the object directly to the central cache.
  void FreePast(SizeClass c, void* object);

  // Moves all objects to the central cache and frees the arrays; returns the objects' bytes. Only
  // the owner calls it.
  size_t Flush();

  // Assigns the cache to the calling thread, whose slot is `slot`. The slot leads to the cache only
  // after the registry stores it there. Requires: the cache is not registered. `shard` was assigned
  // for a cache that is new or was emptied; it is null for an inherited cache, which keeps its
  // shard.
  void HandTo(ThreadSlot& slot, Shard* shard);

  // Returns a part of the objects of bins that ran neither empty nor full since the last
  // collection, and asks for a larger max_bytes(). The bin of class `except` stays as it is. Only
  // the owner calls it. Cost: a few microseconds at most, plus the objects that move.
  void CollectGarbage(SizeClass except = SizeClass::kNone);

  // Makes the owner flush at its next slow path. Thread safety: any.
  void RequestFlush() { flush_requested_.store(true, std::memory_order_relaxed); }

  // True while the cache is detached from its owner, which works without it
  // (Registry::UpdateBypass). Written with the registry's lock held (release): the owner, which
  // reads it without the lock (acquire), then sees the changes of threads that took the cache
  // before. Only the owner clears it.
  bool detached() const { return detached_.load(std::memory_order_acquire); }
  void set_detached(bool detached) { detached_.store(detached, std::memory_order_release); }

  // For the functions that any thread may call.
  const BinTable& table() const { return table_; }
  // For the owner, or a thread that has taken the cache.
  BinTable& table() { return table_; }
  size_t claimed_bytes() const { return table_.claimed_bytes(); }
  size_t max_bytes() const { return max_bytes_.load(std::memory_order_relaxed); }
  // A number that changes with each allocation and each slow path of a free, with or without
  // sampling (see Countdown::Count). A free that finds room in its bin does not change it. A sample
  // and an alarm reset the count, so an old number may repeat by chance; then a cache in use counts
  // as idle once.
  uint64_t ActivityStamp() const {
    // The first number is only ever lowered, and the second only raised, so their difference
    // changes with either.
    return uint64_t{table_.bytes_until_sample()} - slow_paths_.value();
  }

  // An access section in which several objects or an array are moved. Returns what
  // ThreadSlot::BeginAccess returns. Only the owner calls it.
  Bins* BeginChange() {
    Bins* const bins = slot_->BeginAccess();
    changing_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return bins;
  }
  void EndChange() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    changing_.store(false, std::memory_order_relaxed);
    slot_->EndAccess();
  }
  // True while the owner is in such a section. Outside one the bins are consistent, since a single
  // push or pop takes effect with one store. A forked child relies on that when it collects the
  // caches of threads that exist only in the parent: fork copies a prefix of each thread's stores.
  bool changing() const { return changing_.load(std::memory_order_relaxed); }

  ThreadSlot& slot() const { return *slot_; }
  // The shard from which refills take objects first. A thread that inherits the cache inherits the
  // shard, too.
  Shard& shard() const { return *shard_; }
  // An address in the stack of the thread that created the cache.
  uintptr_t first_frame() const { return first_frame_; }

  ListNode<ThreadCache> list_node;

  // The registry's data about the cache. The registry's lock guards them; the owner reads max_bytes
  // without it.
  struct RegistryRecord {
    uint64_t activity_stamp = 0;
    int64_t stamped_at_ms = 0;
    // True if the cache is in the list of the caches of living threads.
    bool listed = false;
    // See AllCaches. Constant once the cache is published there; read without the lock.
    ThreadCache* made_before = nullptr;
  };
  RegistryRecord record;
  void SetMaxBytes(size_t bytes) { max_bytes_.store(bytes, std::memory_order_relaxed); }

  // Draws the gaps between the thread's samples (see process/sampling.h). Owner only.
  SampleGaps gaps{0};
  // See Countdown. Only the owner calls these, but any thread may call Alarm.
  void SetSample(size_t bytes, uint32_t generation) {
    countdown_.SetSample(table_.bins().bytes_until_sample, bytes, generation);
  }
  uint32_t sample_generation() const { return countdown_.generation(); }
  Countdown::Due CountAllocation(size_t bytes) {
    return countdown_.Count(table_.bins().bytes_until_sample, bytes);
  }
  void Alarm() { countdown_.Alarm(table_.bins().bytes_until_sample); }

 private:
  // An access section that may make several changes. Converts to false if another thread has taken
  // the cache.
  class Section {
   public:
    explicit Section(ThreadCache& cache)
        : cache_(cache), mine_(cache.BeginChange() == &cache.table().bins()) {}
    ~Section() { cache_.EndChange(); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
    explicit operator bool() const { return mine_; }

   private:
    ThreadCache& cache_;
    const bool mine_;
  };

  enum class Fit : uint8_t { kDone, kTaken, kOverBudget, kNeedsArray };

  // Counts `n` objects that leave the bin for the central cache. Returns their origin: other
  // threads, if the bin did not fetch as many. Called in an access section. Requires: the bin has
  // an array.
  Origin CountReturned(SizeClass c, size_t n);

  // A new, empty array for bin `i`, with the given limit and room for at least `capacity` objects;
  // null when the arena has no memory.
  BinArray* NewArray(size_t i, size_t limit, size_t capacity);
  // Sets the limit if the claim fits and the limit still is `old_limit`. (Otherwise another thread
  // took the cache meanwhile, and the decision is void.) If the present array is too small,
  // TrySetLimit installs `*spare` and stores the old array there.
  Fit TrySetLimit(size_t i, size_t old_limit, size_t limit, BinArray** spare);
  // As TrySetLimit, but makes the spare array if one is needed; false when the bin stays as it is.
  bool SetLimit(SizeClass c, size_t old_limit, size_t limit);
  // Moves up to `n` of the oldest objects from the bin to the central cache, in pieces that fit on
  // the stack; returns how many.
  TC_OUT_OF_LINE size_t ReturnOldest(SizeClass c, size_t n);
  // As Refill. A cache that claims kReturnedFromBytes returns its longer objects before it takes
  // memory that is not backed: their spans may serve the request.
  void* Fetch(SizeClass c, size_t n);
  // Fetches `n` objects, returns one and puts the others into the bin; null when there is no
  // memory. Not inlined: its array must not be on the stack while Allocate collects garbage.
  TC_OUT_OF_LINE void* Refill(SizeClass c, size_t n, Memory memory);
  // Returns all objects above kReturnedAboveBytes.
  void ReturnBeforeGrowth();
  bool PushOne(SizeClass c, void* object);
  // The part of Free for a class without a bin.
  void FreeWithoutBin(SizeClass c, void* object);
  bool CollectionIsDue() const {
    return traffic_bytes_ >= max_bytes() * (budget_is_short_ ? kShortBackoff : 1);
  }
  // The bytes that the bins may claim now.
  size_t MaxClaim() const;
  // Counts a call that found no bin and no budget for one, and used the central cache for one
  // object.
  void CountUseWithoutBin(SizeClass c) {
    traffic_bytes_ += std::max(kInitialBinBytes, kSizeClasses.size(c));
  }
  void CollectFrom(SizeClass c);
  TC_SLOW_PATH void FlushAsAsked();

  BinTable table_;
  Countdown countdown_;
  // Written with the registry's lock, read by the owner. No other data depends on it.
  std::atomic<size_t> max_bytes_{0};
  // Owner only: bytes that moved between the bins and the central cache since the last collection.
  // A call that found no bin and no budget counts as the bytes of a new bin, since it is as slow as
  // a call that moves them.
  size_t traffic_bytes_ = 0;
  // Owner only: the claims that no objects filled at the last collection; 0 unless nothing was
  // unclaimed then. A thread that empties the cache does not change this number: MaxClaim bounds
  // it, and ignores it once a total was set.
  size_t unfilled_bytes_ = 0;
  // Owner only: true if the last collection found nothing unclaimed. Otherwise a refusal lasts only
  // until the next collection.
  bool budget_is_short_ = false;

  // Written by the owner; read racily by ActivityStamp.
  OwnedCounter slow_paths_;

  // Written by the owner; read by a forked child.
  std::atomic<bool> changing_{false};
  // Any thread sets it, and the owner clears it; the owner may see the change late.
  std::atomic<bool> flush_requested_{false};
  std::atomic<bool> detached_{false};

  // Constant from HandTo until the cache has no owner again.
  ThreadSlot* slot_ = nullptr;
  uintptr_t first_frame_ = 0;
  Shard* shard_ = nullptr;

  // Constant after construction.
  CentralCache& central_;
  MetadataArena& arena_;
  Registry& registry_;
};

// The arena would round a larger object up to twice this size.
static_assert(sizeof(ThreadCache) <= 2048);

}  // namespace tcmalloc
