// SPDX-License-Identifier: BSD-3-Clause
// CentralCache: the middle tier of all size classes: per class a transfer cache in front of a
// central free list. Called by: thread caches (refill, overflow, flush), and directly for threads
// that have no cache. Thread safety: any.
//
// Invariants
//   T4  Each batch in a transfer cache consists of whole line groups (see FindWholeLines): no line
//       passes from one thread to another in part.
#pragma once

#include <cstddef>

#include "base/size_classes.h"
#include "central/central_free_list.h"
#include "central/per_size_class.h"
#include "central/transfer_cache.h"
#include "central/transfer_caches.h"

namespace tcmalloc {

class CentralCache {
 public:
  CentralCache(PageHeap& page_heap, PageMap& page_map, MetadataArena& arena)
      : transfer_caches_(arena), free_lists_(page_heap, page_map, arena) {}
  CentralCache(const CentralCache&) = delete;
  CentralCache& operator=(const CentralCache&) = delete;

  // Up to `n` free objects into `objects`; fewer (at least 1) where the next one would cost a
  // further span, or where what is left of `n` is less than a line group; 0 when the system gives
  // no memory. A request for a whole batch is served by the transfer cache where it has one.
  size_t Remove(SizeClass c, void** objects, size_t n);

  // Takes `n` objects back: batches of whole line groups into the transfer cache while it has room,
  // the rest into the central free list.
  void Insert(SizeClass c, void* const* objects, size_t n);

  // Whether `p`, an object of class `c`, is in use as far as its bit tells.
  bool IsOut(SizeClass c, const void* p) { return free_lists_[c].IsOut(p); }

  // Moves everything from the transfer caches to the central free lists; returns the bytes moved.
  size_t FlushTransferCaches();

  CentralFreeList& free_list(SizeClass c) { return free_lists_[c]; }
  TransferCache& transfer_cache(SizeClass c) { return transfer_caches_[c]; }
  const TransferBudget& transfer_budget() const { return transfer_caches_.budget(); }

  // Aborts when an invariant of the tier does not hold. No other thread may use it meanwhile.
  void CheckInvariants();

 private:
  TransferCaches transfer_caches_;
  PerSizeClass<CentralFreeList> free_lists_;
};

}  // namespace tcmalloc
