// SPDX-License-Identifier: BSD-3-Clause
// TransferCache: ready-made batches of free objects of one size class, between the thread caches
// and the central free list. It never looks at an object or a span. A batch that one thread has
// freed is what another one needs: it passes through here under one short lock.
//
// Invariants
//   T1  used_ <= capacity_
//   T2  slots_[0, used_ * batch_size) are free objects of the class, each exactly once
// Synchronization. LockRank::kTransferCache, one lock per class, held for the copy of one batch of
// pointers. Memory. The array of slots is allocated when the first batch arrives; what may lie in
// it is bounded by kMaxBytes of objects and kMaxBatches batches per class.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/size_classes.h"
#include "os/spinlock.h"
#include "page/metadata_arena.h"

namespace tcmalloc {

class TransferCache {
 public:
  // Why these: on producer/consumer and container workloads a prototype was faster and smaller with
  // 64-256 KiB per class than with 1 MiB, since what lies here is cold memory that the bitmaps
  // below would hand out in address order.
  static constexpr size_t kMaxBytes = size_t{256} << 10;
  static constexpr size_t kMaxBatches = 64;

  TransferCache(SizeClass size_class, MetadataArena& arena);

  size_t batch_size() const { return batch_size_; }

  // Takes batch_size() objects. False when there is no room.
  [[nodiscard]] bool TryInsert(void* const* batch) TC_EXCLUDES(lock_);
  // Hands batch_size() objects out. False when there are none.
  [[nodiscard]] bool TryRemove(void** batch) TC_EXCLUDES(lock_);

  // Free objects in here.
  size_t objects() const { return used_.value() * batch_size_; }
  size_t array_bytes() const { return array_bytes_.value(); }

  SpinLock& lock() { return lock_; }

 private:
  bool AllocateSlots() TC_EXCLUDES(lock_);

  // Constant after construction.
  const size_t batch_size_;
  const size_t capacity_;  // batches
  MetadataArena& arena_;

  SpinLock lock_{LockRank::kTransferCache};
  void** slots_ TC_GUARDED_BY(lock_) = nullptr;

  // Batches. Written with lock_ held; read racily for statistics and to see without the lock that
  // there is nothing to take.
  OwnedCounter used_;
  OwnedCounter array_bytes_;
};

}  // namespace tcmalloc
