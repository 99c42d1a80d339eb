// SPDX-License-Identifier: BSD-3-Clause
#include "cache/registry.h"

#include <new>

#include "base/check.h"

namespace tcmalloc {

ThreadCache* Registry::Create(ThreadSlot& slot) {
  ThreadCache* cache;
  {
    const SpinLockHolder holder(lock_);
    // Before caches of this process's threads are added.
    OrphanOthersIfDueLocked();
    cache = inherited_.PopFirst();
    if (cache != nullptr) {
      inherited_bytes_ -= cache->claimed_bytes();
      cache->HandTo(slot);
      cache->shard().AddThread();
      unregistered_.Prepend(cache);
    }
  }
  if (cache != nullptr) return cache;
  void* const memory = arena_.Allocate(sizeof(ThreadCache));
  if (memory == nullptr) return nullptr;
  cache = new (memory) ThreadCache(slot, central_.shards().Claim(), central_, arena_, *this);
  const SpinLockHolder holder(lock_);
  cache->shard().AddThread();
  unregistered_.Prepend(cache);
  return cache;
}

void Registry::Discard(ThreadCache* cache) {
  BinArraysInFlight arrays;
  {
    const SpinLockHolder holder(lock_);
    unregistered_.Remove(cache);
    cache->shard().RemoveThread();
    cache->table().Detach(&arrays);
  }
  Free(cache, &arrays);
}

size_t Registry::Free(ThreadCache* cache, BinArraysInFlight* arrays) {
  const size_t bytes = ReturnArrays(arrays, central_, arena_);
  ShardMap::Return(cache->shard());
  arena_.Free(cache, sizeof(ThreadCache));
  return bytes;
}

void Registry::Register(ThreadCache* cache) {
  const SpinLockHolder holder(lock_);
  size_t limit = budget_.AddCache();
  // An inherited cache may be larger than a new one's limit. With that limit it could not grow, and
  // would collect garbage, until it is smaller.
  const size_t claimed = cache->claimed_bytes();
  while (limit < claimed && budget_.TryRaise(&limit)) {
  }
  cache->SetMaxBytes(limit);
  // A flush that has begun need not visit caches that are registered meanwhile.
  cache->record.flush_round = flush_rounds_;
  unregistered_.Remove(cache);
  caches_.Prepend(cache);
  cache->set_detached(bypass_.load(std::memory_order_relaxed));
  if (cache->detached()) return;
  // With the lock held: a thread that takes caches must not find this one in the list while its
  // owner is on the way to its bins.
  cache->slot().bins.store(&cache->table().bins(), std::memory_order_release);
}

void Registry::RemoveLocked(ThreadCache* cache) {
  if (next_victim_ == cache) next_victim_ = IntrusiveList<ThreadCache>::Next(cache);
  caches_.Remove(cache);
  ++removals_;
  cache->shard().RemoveThread();
  budget_.RemoveCache(cache->max_bytes());
}

void Registry::Destroy(ThreadCache* cache) {
  const bool inherits = inheritance_.load(std::memory_order_relaxed);
  const size_t may_be_left = inherits ? central_.Shares().inherited_caches : 0;
  BinArraysInFlight arrays;
  {
    const SpinLockHolder holder(lock_);
    RemoveLocked(cache);
    // With the lock held: a thread that has taken the cache stores the pointer back before it
    // releases the lock, so never after this store.
    cache->slot().bins.store(const_cast<Bins*>(&kEmptyBins), std::memory_order_release);
    const size_t claimed = cache->claimed_bytes();
    if (inherited_bytes_ + claimed <= may_be_left && claimed > 0) {
      inherited_bytes_ += claimed;
      inherited_.Prepend(cache);
      return;
    }
    cache->table().Detach(&arrays);
  }
  Free(cache, &arrays);
}

void Registry::CheckInvariants() {
  const SpinLockHolder holder(lock_);
  int64_t max_bytes = 0;
  for (ThreadCache* cache = caches_.first(); cache != nullptr; cache = caches_.Next(cache)) {
    const Bins* const reachable = cache->detached() ? &kEmptyBins : &cache->table().bins();
    TC_CHECK(cache->slot().bins.load(std::memory_order_relaxed) == reachable);  // R1
    max_bytes += static_cast<int64_t>(cache->max_bytes());
    cache->table().CheckInvariants();
  }
  TC_CHECK(static_cast<int64_t>(budget_.total()) - budget_.unclaimed() == max_bytes);  // R2
  for (ThreadCache* cache = orphans_.first(); cache != nullptr; cache = orphans_.Next(cache)) {
    cache->table().CheckInvariants();
  }
  size_t inherited_bytes = 0;
  for (ThreadCache* cache = inherited_.first(); cache != nullptr; cache = inherited_.Next(cache)) {
    TC_CHECK(cache->claimed_bytes() > 0);  // R3
    inherited_bytes += cache->claimed_bytes();
    cache->table().CheckInvariants();
  }
  TC_CHECK(inherited_bytes == inherited_bytes_);  // R3
  for (ThreadCache* cache = unregistered_.first(); cache != nullptr; cache = caches_.Next(cache)) {
    cache->table().CheckInvariants();
  }
  central_.shards().ForEach([this](const Shard& shard) {
    size_t threads = 0;
    for (const auto* list : {&caches_, &unregistered_}) {
      for (ThreadCache* cache = list->first(); cache != nullptr; cache = list->Next(cache)) {
        threads += &cache->shard() == &shard ? 1 : 0;
      }
    }
    TC_CHECK(shard.num_threads() == threads);  // R4
  });
}

// The slot identifies a cache's thread at any moment between Create and Destroy: a signal handler
// may have forked in the middle of them.
void Registry::OrphanOthersInChild(const ThreadSlot* survivor) TC_NO_THREAD_SAFETY_ANALYSIS {
  for (ThreadCache* cache = caches_.first(); cache != nullptr;) {
    ThreadCache* const next = caches_.Next(cache);
    if (&cache->slot() != survivor) {
      RemoveLocked(cache);
      // The bins of a thread that was moving several objects may be inconsistent: the child leaks
      // their objects.
      if (cache->changing()) {
        ShardMap::Return(cache->shard());
      } else {
        orphans_.Prepend(cache);
        has_orphans_.store(true, std::memory_order_relaxed);
      }
    }
    cache = next;
  }
  // The caches of threads that were starting.
  for (ThreadCache* cache = unregistered_.first(); cache != nullptr;) {
    ThreadCache* const next = unregistered_.Next(cache);
    if (&cache->slot() != survivor) {
      unregistered_.Remove(cache);
      cache->shard().RemoveThread();
      orphans_.Prepend(cache);
      has_orphans_.store(true, std::memory_order_relaxed);
    }
    cache = next;
  }
}

void Registry::OrphanOthersLater(const ThreadSlot* survivor) {
  survivor_ = survivor;
  orphans_due_.store(true, std::memory_order_relaxed);
  // Makes the slow paths call AdoptOrphan.
  has_orphans_.store(true, std::memory_order_relaxed);
}

void Registry::OrphanOthersIfDueLocked() {
  if (__builtin_expect(!orphans_due_.load(std::memory_order_relaxed), true)) return;
  orphans_due_.store(false, std::memory_order_relaxed);
  OrphanOthersInChild(survivor_);
}

bool Registry::AdoptOrphan() {
  ThreadCache* orphan;
  BinArraysInFlight arrays;
  {
    const SpinLockHolder holder(lock_);
    OrphanOthersIfDueLocked();
    orphan = orphans_.PopFirst();
    if (orphans_.empty()) has_orphans_.store(false, std::memory_order_relaxed);
    if (orphan != nullptr) orphan->table().Detach(&arrays);
  }
  if (orphan == nullptr) return false;
  Free(orphan, &arrays);
  return true;
}

}  // namespace tcmalloc
