// SPDX-License-Identifier: BSD-3-Clause
#include "central/central_cache.h"

#include <new>

#include "base/check.h"
#include "central/line_batch.h"

namespace tcmalloc {

TransferCaches& CentralCache::EnsureTransferCaches(size_t shard) {
  if (TransferCaches* const present = transfer_caches(shard)) return *present;
  void* const memory = arena_.Allocate(sizeof(TransferCaches));
  if (memory == nullptr) return first_transfer_caches_;
  {
    const SpinLockHolder holder(shards_lock_);
    if (transfer_caches(shard) == nullptr) {
      TransferCaches* const fresh = new (memory) TransferCaches(arena_);
      // A handler of another library around fork is running: ours release these locks too.
      if (shards_lock_.HeldForForkByThisThread()) {
        fresh->ForEachLock([](SpinLock& lock) { lock.HoldForFork(); });
      }
      transfer_caches_[shard].store(fresh, std::memory_order_release);
      return *fresh;
    }
  }
  // Another thread was faster.
  arena_.Free(memory, sizeof(TransferCaches));
  return *transfer_caches(shard);
}

size_t CentralCache::RemoveBatches(TransferCaches* caches, SizeClass c, void** objects, size_t n) {
  if (caches == nullptr) return 0;
  const size_t batch_size = (*caches)[c].batch_size();
  size_t taken = 0;
  while (n - taken >= batch_size && caches->TryRemove(c, objects + taken)) taken += batch_size;
  return taken;
}

size_t CentralCache::Remove(SizeClass c, void** objects, size_t n) {
  const size_t own = shards_.Current();
  CentralFreeList& free_list = free_lists_[c];
  // A part of what was asked for is enough at each step: the rest is not worth another lock.
  if (const size_t taken = RemoveBatches(transfer_caches(own), c, objects, n)) return taken;
  if (const size_t taken = free_list.RemoveNear(own, objects, n)) return taken;
  for (size_t i = 1; i < kMaxShards; ++i) {
    TransferCaches* const others = transfer_caches((own + i) % kMaxShards);
    if (const size_t taken = RemoveBatches(others, c, objects, n)) return taken;
  }
  return free_list.Remove(own, objects, n);
}

void CentralCache::Insert(SizeClass c, void* const* objects, size_t n, Origin origin) {
  const size_t own = shards_.Current();
  CentralFreeList& free_list = free_lists_[c];
  const bool goes_home =
      origin == Origin::kOtherThreads && n > 0 && free_list.IsFar(own, objects[0]);
  if (!goes_home && n >= first_transfer_caches_[c].batch_size()) {
    TransferCaches& caches = EnsureTransferCaches(own);
    const size_t batch_size = caches[c].batch_size();
    // The first objects, which go to the free list.
    size_t skipped = 0;
    while (n - skipped >= batch_size && !caches[c].HasMost()) {
      const size_t found = FindWholeLines(objects + skipped, n - skipped, batch_size,
                                          free_list.object_size(), free_list.line_objects());
      if (found == kNoWholeLines) {
        skipped += batch_size;
        continue;
      }
      skipped += found;
      if (!caches.TryInsert(c, objects + skipped)) break;
      if (skipped > 0) free_list.Insert(own, objects, skipped, origin);
      objects += skipped + batch_size;
      n -= skipped + batch_size;
      skipped = 0;
    }
  }
  if (n > 0) free_list.Insert(own, objects, n, origin);
}

size_t CentralCache::FlushTransferCaches() {
  size_t bytes = 0;
  for (size_t shard = 0; shard < kMaxShards; ++shard) {
    TransferCaches* const caches = transfer_caches(shard);
    if (caches == nullptr) continue;
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const SizeClass c = static_cast<SizeClass>(i);
      const TransferCache& transfer_cache = (*caches)[c];
      void* batch[kMaxBatchSize];
      while (caches->TryRemove(c, batch)) {
        free_lists_[c].Insert(shard, batch, transfer_cache.batch_size());
        bytes += transfer_cache.batch_bytes();
      }
    }
  }
  return bytes;
}

size_t CentralCache::transfer_objects(SizeClass c) {
  size_t sum = 0;
  for (size_t shard = 0; shard < kMaxShards; ++shard) {
    if (TransferCaches* const caches = transfer_caches(shard)) sum += (*caches)[c].objects();
  }
  return sum;
}

void CentralCache::CheckInvariants() {
  for (size_t shard = 0; shard < kMaxShards; ++shard) {
    TransferCaches* const caches = transfer_caches(shard);
    if (caches == nullptr) continue;
    caches->CheckInvariants();
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const SizeClass c = static_cast<SizeClass>(i);
      CentralFreeList& free_list = free_lists_[c];
      TransferCache& transfer_cache = (*caches)[c];
      const size_t batch_size = transfer_cache.batch_size();
      transfer_cache.CheckInvariants();
      transfer_cache.ForEachBatch([&](void* const* batch) {
        TC_CHECK(FindWholeLines(batch, batch_size, batch_size, free_list.object_size(),
                                free_list.line_objects()) == 0);                      // T4
        for (size_t j = 0; j < batch_size; ++j) TC_CHECK(free_list.IsOut(batch[j]));  // T2
      });
    }
  }
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    free_lists_[static_cast<SizeClass>(i)].CheckInvariants();
  }
}

}  // namespace tcmalloc
