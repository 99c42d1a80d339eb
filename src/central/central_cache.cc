// SPDX-License-Identifier: BSD-3-Clause
#include "central/central_cache.h"

#include "base/check.h"
#include "central/line_batch.h"

namespace tcmalloc {

size_t CentralCache::Remove(SizeClass c, void** objects, size_t n) {
  const size_t batch_size = transfer_caches_[c].batch_size();
  size_t taken = 0;
  while (n - taken >= batch_size && transfer_caches_.TryRemove(c, objects + taken)) {
    taken += batch_size;
  }
  // A part of what was asked for is enough: the rest is not worth another lock.
  if (taken > 0) return taken;
  return free_lists_[c].Remove(objects, n);
}

void CentralCache::Insert(SizeClass c, void* const* objects, size_t n) {
  TransferCache& transfer_cache = transfer_caches_[c];
  CentralFreeList& free_list = free_lists_[c];
  const size_t batch_size = transfer_cache.batch_size();
  // The first objects, which go to the free list.
  size_t skipped = 0;
  while (n - skipped >= batch_size && !transfer_cache.HasMost()) {
    const size_t found = FindWholeLines(objects + skipped, n - skipped, batch_size,
                                        free_list.object_size(), free_list.line_objects());
    if (found == kNoWholeLines) {
      skipped += batch_size;
      continue;
    }
    skipped += found;
    if (!transfer_caches_.TryInsert(c, objects + skipped)) break;
    if (skipped > 0) free_list.Insert(objects, skipped);
    objects += skipped + batch_size;
    n -= skipped + batch_size;
    skipped = 0;
  }
  if (n > 0) free_list.Insert(objects, n);
}

size_t CentralCache::FlushTransferCaches() {
  size_t bytes = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const TransferCache& transfer_cache = transfer_caches_[c];
    void* batch[kMaxBatchSize];
    while (transfer_caches_.TryRemove(c, batch)) {
      free_lists_[c].Insert(batch, transfer_cache.batch_size());
      bytes += transfer_cache.batch_bytes();
    }
  }
  return bytes;
}

void CentralCache::CheckInvariants() {
  transfer_caches_.CheckInvariants();
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    CentralFreeList& free_list = free_lists_[c];
    const size_t batch_size = transfer_caches_[c].batch_size();
    transfer_caches_[c].CheckInvariants([&](void* const* batch) {
      TC_CHECK(FindWholeLines(batch, batch_size, batch_size, free_list.object_size(),
                              free_list.line_objects()) == 0);                      // T4
      for (size_t j = 0; j < batch_size; ++j) TC_CHECK(free_list.IsOut(batch[j]));  // T2
    });
    free_list.CheckInvariants();
  }
}

}  // namespace tcmalloc
