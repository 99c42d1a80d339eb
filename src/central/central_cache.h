// SPDX-License-Identifier: BSD-3-Clause
// CentralCache: the middle tier of all size classes: a central free list for each, all in shards
// (see ShardMap). What a thread asks for comes from its shard's spans, another one's, or a new
// span, in this order. Called by: thread caches (refill, overflow, flush), and directly for threads
// that have no cache. Thread safety: any.
#pragma once

#include <cstddef>

#include "base/size_classes.h"
#include "central/central_free_list.h"
#include "central/per_size_class.h"
#include "central/shard_map.h"

namespace tcmalloc {

class CentralCache {
 public:
  CentralCache(PageHeap& page_heap, PageMap& page_map, MetadataArena& arena,
               ShardMap::Processor processor, size_t num_shards = ShardMap::kDefault)
      : page_heap_(page_heap),
        shards_(page_heap, arena, processor, num_shards),
        free_lists_(shards_, page_heap, page_map, arena) {}
  CentralCache(const CentralCache&) = delete;
  CentralCache& operator=(const CentralCache&) = delete;

  // Up to `n` free objects into `objects`; fewer (at least 1) where the next one would cost a
  // further span, or where what is left of `n` is less than a line group; 0 when the system gives
  // no memory.
  size_t Remove(SizeClass c, void** objects, size_t n) {
    return free_lists_[c].Remove(shards_.Current(), objects, n);
  }

  // Takes `n` objects back to the spans that they are in, wherever these are.
  void Insert(SizeClass c, void* const* objects, size_t n, Origin origin = Origin::kAny) {
    free_lists_[c].Insert(shards_.Current(), objects, n, origin);
  }

  // Whether `p`, an object of class `c`, is in use as far as its bit tells.
  bool IsOut(SizeClass c, const void* p) { return free_lists_[c].IsOut(p); }

  CentralFreeList& free_list(SizeClass c) { return free_lists_[c]; }
  ShardMap& shards() { return shards_; }

  // What each tier may keep now. Racy.
  RetentionShares Shares() const { return page_heap_.Shares(); }

  // Calls f(lock) for every lock of the tier: see ShardMap::ForEachLock.
  template <typename F>
  void ForEachLock(F f) {
    shards_.ForEachLock(f);
  }

  // Aborts when an invariant of the tier does not hold. No other thread may use it meanwhile.
  void CheckInvariants() {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      free_lists_[static_cast<SizeClass>(i)].CheckInvariants();
    }
  }

 private:
  PageHeap& page_heap_;
  ShardMap shards_;
  PerSizeClass<CentralFreeList> free_lists_;
};

}  // namespace tcmalloc
