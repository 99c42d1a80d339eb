// SPDX-License-Identifier: BSD-3-Clause
// TransferCache: ready-made batches of free objects of one size class, between the thread caches
// and the central free list. It never looks at an object or a span. A batch that one thread has
// freed is what another one needs: it passes through here under one short lock.
//
// Invariants
//   T1  used_ <= slots_ <= max_slots_
//   T2  batches_[0, used_ * batch size) are objects of the class that no bitmap has as free.
//   (T3 and T4 are with the owners: TransferCaches, CentralCache.)
// Synchronization. LockRank::kTransferCache, one lock per class, held for the copy of one batch of
// pointers. Memory. The array of pointers has room for max_slots_ batches and is allocated when the
// first batch arrives; what may lie in it is bounded by transfer_policy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/counters.h"
#include "base/size_classes.h"
#include "os/spinlock.h"
#include "page/metadata_arena.h"

namespace tcmalloc {

// The bytes that several transfer caches may hold together. Thread safety: any.
class TransferBudget {
 public:
  explicit constexpr TransferBudget(size_t bytes) : total_(bytes), unclaimed_(bytes) {}

  [[nodiscard]] bool TryClaim(size_t bytes) {
    size_t unclaimed = unclaimed_.load(std::memory_order_relaxed);
    do {
      if (unclaimed < bytes) return false;
    } while (
        !unclaimed_.compare_exchange_weak(unclaimed, unclaimed - bytes, std::memory_order_relaxed));
    return true;
  }
  void Return(size_t bytes) { unclaimed_.fetch_add(bytes, std::memory_order_relaxed); }

  size_t unclaimed() const { return unclaimed_.load(std::memory_order_relaxed); }
  size_t total() const { return total_; }

 private:
  // Constant after construction.
  const size_t total_;
  // Written by every transfer cache whose number of slots changes, with the cache's lock held, so
  // that whoever holds all those locks (fork) finds budget and slots in agreement. Read by all.
  // Relaxed: it is a number; what is guarded by nothing else does not hang on it.
  std::atomic<size_t> unclaimed_;
};

class alignas(kCacheLineSize) TransferCache {
 public:
  TransferCache(SizeClass size_class, MetadataArena& arena, TransferBudget& budget);

  size_t batch_size() const { return batch_size_; }
  size_t batch_bytes() const { return batch_bytes_; }

  // Takes batch_size() objects. False when there is no room.
  [[nodiscard]] bool TryInsert(void* const* batch) TC_EXCLUDES(lock_);
  // Hands batch_size() objects out. False when there are none.
  [[nodiscard]] bool TryRemove(void** batch) TC_EXCLUDES(lock_);

  // It is full, and more slots would help. Racy.
  bool WantsSlot() const;
  // Gives unused slots back to the budget, at most what it takes to cover `missing_bytes`.
  void GiveUnusedSlots(size_t missing_bytes) TC_EXCLUDES(lock_);

  // It holds all that it ever may. Racy.
  bool HasMost() const { return used_.value() == max_slots_; }
  // Free objects in here.
  size_t objects() const { return used_.value() * batch_size_; }
  size_t slots() const { return slots_.value(); }
  size_t max_slots() const { return max_slots_; }
  size_t array_bytes() const { return array_bytes_.value(); }

  // Calls f(batch) for every batch, with the lock held.
  template <typename F>
  void ForEachBatch(F f) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    for (size_t i = 0; i < used_.value(); ++i) f(batches_ + i * batch_size_);
  }
  // Aborts when T1 does not hold.
  void CheckInvariants() TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    CheckLocked();
  }

  SpinLock& lock() { return lock_; }

 private:
  bool AllocateArray() TC_EXCLUDES(lock_);
  void CheckLocked() const TC_REQUIRES(lock_);

  // Constant after construction.
  const uint16_t batch_size_;
  const uint16_t max_slots_;
  const uint32_t batch_bytes_;
  MetadataArena& arena_;
  TransferBudget& budget_;

  SpinLock lock_{LockRank::kTransferCache};
  void** batches_ TC_GUARDED_BY(lock_) = nullptr;

  // Written with lock_ held; read racily for statistics and to see without the lock that there is
  // nothing to take. Batches, and room for batches.
  OwnedCounter used_;
  OwnedCounter slots_;
  OwnedCounter array_bytes_;
};

static_assert(sizeof(TransferCache) == kCacheLineSize);

}  // namespace tcmalloc
