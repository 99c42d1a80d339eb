// SPDX-License-Identifier: BSD-3-Clause
// CentralCache: the central free lists of all size classes, and their shards (see ShardMap).
// Called by: thread caches (refill, overflow, flush), and directly for threads without a cache.
// Thread safety: any.
#pragma once

#include <cstddef>
#include <new>

#include "base/size_classes.h"
#include "central/central_free_list.h"
#include "central/shard.h"

namespace tcmalloc {

// PerSizeClass: one object of type T for each size class. The place of SizeClass::kNone stays raw
// memory. Thread safety: that of T.
template <typename T>
class PerSizeClass {
 public:
  // Each is constructed as T(size class, arguments...).
  template <typename... Arguments>
  explicit PerSizeClass(Arguments&... arguments) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      new (storage_ + i * sizeof(T)) T(static_cast<SizeClass>(i), arguments...);
    }
  }
  PerSizeClass(const PerSizeClass&) = delete;
  PerSizeClass& operator=(const PerSizeClass&) = delete;

  T& operator[](SizeClass c) { return reinterpret_cast<T*>(storage_)[Index(c)]; }

 private:
  alignas(T) unsigned char storage_[kNumSizeClasses * sizeof(T)];
};

class CentralCache {
 public:
  CentralCache(PageHeap& page_heap, PageMap& page_map, MetadataArena& arena,
               ShardMap::Processor processor, size_t num_shards = ShardMap::kDefault)
      : parts_{shards_, page_heap, page_map, arena},
        free_lists_(parts_),
        shards_(page_heap, arena, processor, num_shards) {}
  CentralCache(const CentralCache&) = delete;
  CentralCache& operator=(const CentralCache&) = delete;

  // Puts up to `n` free objects into `objects` and returns how many: fewer (at least 1) where the
  // next one would need a further span, or the rest of `n` is less than a line batch; 0 when the OS
  // provides no memory, or none of the kind `memory`. The one to use first is the last. For a
  // thread whose shard is `own`; without one: that of the CPU.
  size_t Remove(Shard& own, SizeClass c, void** objects, size_t n, Memory memory = Memory::kAny) {
    return free_lists_[c].Remove(own, objects, n, memory);
  }
  size_t Remove(SizeClass c, void** objects, size_t n) {
    return Remove(shards_.Current(), c, objects, n);
  }

  // Returns `n` objects to their spans, in whichever shards these are.
  void Insert(Shard& own, SizeClass c, void* const* objects, size_t n,
              Origin origin = Origin::kAny) {
    free_lists_[c].Insert(own, objects, n, origin);
  }
  void Insert(SizeClass c, void* const* objects, size_t n, Origin origin = Origin::kAny) {
    Insert(shards_.Current(), c, objects, n, origin);
  }

  // Whether `p`, an object of class `c`, is in use according to its bit.
  bool IsOut(SizeClass c, const void* p) { return free_lists_[c].IsOut(p); }

  CentralFreeList& free_list(SizeClass c) { return free_lists_[c]; }
  ShardMap& shards() { return shards_; }

  // What each part of the heap may retain now: see PageHeap::Shares. Racy.
  RetentionShares Shares(size_t thread_caches) const {
    return parts_.page_heap.Shares(thread_caches);
  }

  // Calls f(lock) for every lock: see ShardMap::ForEachLock.
  template <typename F>
  void ForEachLock(F f) {
    shards_.ForEachLock(f);
  }

  // Aborts when an invariant does not hold. No other thread may use the cache meanwhile.
  void CheckInvariants() {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      free_lists_[static_cast<SizeClass>(i)].CheckInvariants();
    }
  }

 private:
  CentralFreeList::Parts parts_;
  PerSizeClass<CentralFreeList> free_lists_;
  ShardMap shards_;
};

}  // namespace tcmalloc
