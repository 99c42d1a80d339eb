// SPDX-License-Identifier: BSD-3-Clause
// CentralCache: the middle tier of all size classes: per class a transfer cache in front of a
// central free list, both in shards (see ShardMap). What a thread asks for comes from its shard's
// transfer cache, its shard's spans, another one's transfer cache, another one's spans, a new span,
// in this order. Called by: thread caches (refill, overflow, flush), and directly for threads
// that have no cache. Thread safety: any.
//
// Invariants
//   T4  Each batch in a transfer cache consists of whole line groups (see FindWholeLines): no line
//       passes from one thread to another in part.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "base/shard_map.h"
#include "base/size_classes.h"
#include "central/central_free_list.h"
#include "central/per_size_class.h"
#include "central/transfer_cache.h"
#include "central/transfer_caches.h"

namespace tcmalloc {

class CentralCache {
 public:
  CentralCache(PageHeap& page_heap, PageMap& page_map, MetadataArena& arena,
               ShardMap::Processor processor)
      : shards_(processor),
        arena_(arena),
        first_transfer_caches_(arena),
        free_lists_(page_heap, page_map, arena) {
    transfer_caches_[0].store(&first_transfer_caches_, std::memory_order_relaxed);
  }
  CentralCache(const CentralCache&) = delete;
  CentralCache& operator=(const CentralCache&) = delete;

  // Up to `n` free objects into `objects`; fewer (at least 1) where the next one would cost a
  // further span, or where what is left of `n` is less than a line group; 0 when the system gives
  // no memory. A request for a whole batch is served by the transfer cache where it has one.
  size_t Remove(SizeClass c, void** objects, size_t n);

  // Takes `n` objects back: batches of whole line groups into the transfer cache while it has room,
  // the rest into the central free list. What other threads allocated near another processor goes
  // home: to the spans there.
  void Insert(SizeClass c, void* const* objects, size_t n, Origin origin = Origin::kAny);

  // Whether `p`, an object of class `c`, is in use as far as its bit tells.
  bool IsOut(SizeClass c, const void* p) { return free_lists_[c].IsOut(p); }

  // Moves everything from the transfer caches to the central free lists; returns the bytes moved.
  size_t FlushTransferCaches();

  CentralFreeList& free_list(SizeClass c) { return free_lists_[c]; }
  // Those of one shard; null when it has none yet. Shard 0 has them always.
  TransferCaches* transfer_caches(size_t shard) {
    return transfer_caches_[shard].load(std::memory_order_acquire);
  }
  // Objects of class `c` in the transfer caches of all shards.
  size_t transfer_objects(SizeClass c);

  // Calls f(lock) for every lock of the tier. Once those that come first are held, there are no
  // others but such as the holder makes, which are held then.
  template <typename F>
  void ForEachLock(F f) {
    f(shards_lock_);
    for (size_t i = 0; i < kMaxShards; ++i) {
      if (TransferCaches* const caches = transfer_caches(i)) caches->ForEachLock(f);
    }
    for (size_t i = 1; i < kNumSizeClasses; ++i)
      free_lists_[static_cast<SizeClass>(i)].ForEachLock(f);
  }

  // Aborts when an invariant of the tier does not hold. No other thread may use it meanwhile.
  void CheckInvariants();

 private:
  // The shard's transfer caches, made where they are not there; those of shard 0 when there is no
  // memory for them.
  TransferCaches& EnsureTransferCaches(size_t shard) TC_EXCLUDES(shards_lock_);
  // Whole batches out of the shard's transfer cache, as many as `n` has room for.
  size_t RemoveBatches(TransferCaches* caches, SizeClass c, void** objects, size_t n);

  ShardMap shards_;
  MetadataArena& arena_;
  // Written with shards_lock_ held, each once; read without. Release and acquire: who finds them
  // finds them constructed.
  SpinLock shards_lock_{LockRank::kShards};
  std::array<std::atomic<TransferCaches*>, kMaxShards> transfer_caches_ = {};
  TransferCaches first_transfer_caches_;
  PerSizeClass<CentralFreeList> free_lists_;
};

}  // namespace tcmalloc
