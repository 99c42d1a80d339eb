// SPDX-License-Identifier: BSD-3-Clause
#include "cache/registry.h"

#include <new>

namespace tcmalloc {

ThreadCache* Registry::Create(ThreadSlot& slot) {
  void* const memory = arena_.Allocate(sizeof(ThreadCache));
  if (memory == nullptr) return nullptr;
  ThreadCache* const cache = new (memory) ThreadCache(slot, central_, arena_);
  const SpinLockHolder holder(lock_);
  caches_.Prepend(cache);
  return cache;
}

void Registry::Destroy(ThreadCache* cache) {
  {
    const SpinLockHolder holder(lock_);
    caches_.Remove(cache);
    // With the lock held: a thread that has taken the cache puts it back before it lets go of the
    // lock, and not behind us.
    cache->slot().bins.store(const_cast<Bins*>(&kEmptyBins), std::memory_order_release);
  }
  cache->FlushAndFreeArrays();
  arena_.Free(cache, sizeof(ThreadCache));
}

Registry::Totals Registry::GetTotals() {
  Totals totals;
  const SpinLockHolder holder(lock_);
  for (const auto* list : {&caches_, &orphans_}) {
    for (const ThreadCache* cache = list->first(); cache != nullptr; cache = list->Next(cache)) {
      totals.cached_bytes += cache->CachedBytes();
      totals.array_bytes += cache->ArrayBytes();
      ++totals.caches;
    }
  }
  return totals;
}

size_t Registry::CachedObjects(SizeClass c) {
  size_t objects = 0;
  const SpinLockHolder holder(lock_);
  for (const auto* list : {&caches_, &orphans_}) {
    for (const ThreadCache* cache = list->first(); cache != nullptr; cache = list->Next(cache)) {
      objects += cache->CachedObjects(c);
    }
  }
  return objects;
}

void Registry::CheckInvariants() {
  const SpinLockHolder holder(lock_);
  for (const auto* list : {&caches_, &orphans_}) {
    for (const ThreadCache* cache = list->first(); cache != nullptr; cache = list->Next(cache)) {
      cache->CheckInvariants();
    }
  }
}

bool Registry::StackHolds(uintptr_t address, uintptr_t limit) {
  const SpinLockHolder holder(lock_);
  for (ThreadCache* cache = caches_.first(); cache != nullptr; cache = caches_.Next(cache)) {
    const uintptr_t slot = reinterpret_cast<uintptr_t>(&cache->slot());
    if (address >= cache->first_frame() && address < slot && slot < limit) return true;
  }
  return false;
}

void Registry::OrphanOthersInChild(ThreadCache* survivor) TC_NO_THREAD_SAFETY_ANALYSIS {
  for (ThreadCache* cache = caches_.first(); cache != nullptr;) {
    ThreadCache* const next = caches_.Next(cache);
    if (cache != survivor) {
      caches_.Remove(cache);
      // A thread that was moving several objects left bins that cannot be trusted: what is in them
      // is lost to the child.
      if (!cache->changing()) {
        orphans_.Prepend(cache);
        has_orphans_.store(true, std::memory_order_relaxed);
      }
    }
    cache = next;
  }
}

bool Registry::AdoptOrphan() {
  ThreadCache* orphan;
  {
    const SpinLockHolder holder(lock_);
    orphan = orphans_.PopFirst();
    if (orphans_.empty()) has_orphans_.store(false, std::memory_order_relaxed);
  }
  if (orphan == nullptr) return false;
  orphan->FlushAndFreeArrays();
  arena_.Free(orphan, sizeof(ThreadCache));
  return true;
}

}  // namespace tcmalloc
