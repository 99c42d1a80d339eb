// SPDX-License-Identifier: BSD-3-Clause
#include "central/central_cache.h"

#include <new>

namespace tcmalloc {

CentralCache::CentralCache(PageHeap& page_heap, PageMap& page_map, MetadataArena& arena) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    new (&tier(c)) Tier(c, page_heap, page_map, arena);
  }
}

size_t CentralCache::Remove(SizeClass c, void** objects, size_t n) {
  Tier& t = tier(c);
  const size_t batch = t.transfer_cache.batch_size();
  size_t taken = 0;
  while (n - taken >= batch && t.transfer_cache.TryRemove(objects + taken)) taken += batch;
  // A part of what was asked for is enough: the rest is not worth another lock.
  if (taken > 0) return taken;
  return t.free_list.Remove(objects, n);
}

void CentralCache::Insert(SizeClass c, void* const* objects, size_t n) {
  Tier& t = tier(c);
  const size_t batch = t.transfer_cache.batch_size();
  while (n >= batch && t.transfer_cache.TryInsert(objects)) {
    objects += batch;
    n -= batch;
  }
  if (n > 0) t.free_list.Insert(objects, n);
}

size_t CentralCache::FlushTransferCaches() {
  size_t bytes = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    Tier& t = tier(static_cast<SizeClass>(i));
    void* batch[kMaxBatchSize];
    while (t.transfer_cache.TryRemove(batch)) {
      t.free_list.Insert(batch, t.transfer_cache.batch_size());
      bytes += t.transfer_cache.batch_size() * t.free_list.object_size();
    }
  }
  return bytes;
}

}  // namespace tcmalloc
