// SPDX-License-Identifier: BSD-3-Clause
// CentralCache: the middle tier of all size classes: per class a transfer cache in front of a
// central free list. Called by: thread caches (refill, overflow, flush), and directly for threads
// that have no cache. Thread safety: any.
#pragma once

#include <cstddef>

#include "base/size_classes.h"
#include "central/central_free_list.h"
#include "central/transfer_cache.h"

namespace tcmalloc {

class CentralCache {
 public:
  CentralCache(PageHeap& page_heap, PageMap& page_map, MetadataArena& arena);
  CentralCache(const CentralCache&) = delete;
  CentralCache& operator=(const CentralCache&) = delete;

  // Up to `n` free objects into `objects`; fewer (at least 1) where the next one would cost a
  // further span, 0 when the system gives no memory. A request for a whole batch is served by the
  // transfer cache where it has one.
  size_t Remove(SizeClass c, void** objects, size_t n);

  // Takes `n` objects back: whole batches into the transfer cache while it has room, the rest into
  // the central free list.
  void Insert(SizeClass c, void* const* objects, size_t n);

  // Moves everything from the transfer caches to the central free lists; returns the bytes moved.
  size_t FlushTransferCaches();

  CentralFreeList& free_list(SizeClass c) { return tier(c).free_list; }
  TransferCache& transfer_cache(SizeClass c) { return tier(c).transfer_cache; }

 private:
  struct Tier {
    Tier(SizeClass c, PageHeap& page_heap, PageMap& page_map, MetadataArena& arena)
        : transfer_cache(c, arena), free_list(c, page_heap, page_map, arena) {}
    TransferCache transfer_cache;
    CentralFreeList free_list;
  };

  Tier& tier(SizeClass c) { return reinterpret_cast<Tier*>(storage_)[Index(c)]; }

  // One Tier per class, constructed in place; the one of kNone stays raw.
  alignas(kCacheLineSize) unsigned char storage_[kNumSizeClasses * sizeof(Tier)];
};

}  // namespace tcmalloc
