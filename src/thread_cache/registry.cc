// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/registry.h"

#include <new>

#include "base/config.h"

namespace tcmalloc {

ThreadCache* Registry::Create(ThreadSlot& slot) {
  bool any_shard = false;
  for (;;) {
    bool lacks_cache;
    {
      const SpinLockHolder holder(lock_);
      // This precedes the first cache of a thread of this process in the list.
      OrphanOthersIfDueLocked();
      if (ThreadCache* const cache = TryHandOutLocked(slot, any_shard)) {
        RegisterLocked(cache, slot);
        return cache;
      }
      lacks_cache = unused_.empty();
    }
    // The lock is not held here, since the arena may need memory from the OS. Another thread may
    // get the cache or the shard that is made here.
    if (lacks_cache) {
      if (!MakeCache()) return nullptr;
    } else {
      any_shard = !central_.shards().MakeNext();
    }
  }
}

ThreadCache* Registry::TryHandOutLocked(ThreadSlot& slot, bool any_shard) {
  if (ThreadCache* const cache = inherited_.PopFirst()) {
    inherited_bytes_ -= cache->claimed_bytes();
    cache->HandTo(slot, nullptr);
    return cache;
  }
  if (unused_.empty()) return nullptr;
  Shard* const shard = central_.shards().TryClaim(any_shard);
  if (shard == nullptr) return nullptr;
  ThreadCache* const cache = unused_.PopFirst();
  cache->HandTo(slot, shard);
  return cache;
}

bool Registry::MakeCache() {
  void* const memory = arena_.Allocate(sizeof(ThreadCache));
  if (memory == nullptr) return false;
  ThreadCache* const cache = new (memory) ThreadCache(central_, arena_, *this);
  const SpinLockHolder holder(lock_);
  all_.Add(cache);
  unused_.Prepend(cache);
  return true;
}

void Registry::RetireLocked(ThreadCache* cache, BinArraysInFlight* arrays) {
  cache->table().Detach(arrays);
  central_.shards().Return(cache->shard());
  unused_.Prepend(cache);
}

void Registry::RegisterLocked(ThreadCache* cache, ThreadSlot& slot) {
  cache->shard().AddThread();
  size_t limit = budget_.AddCache();
  UpdateMaxBinBytesOfFreesLocked();
  // An inherited cache may claim more than the limit of a new one. With that limit it would collect
  // garbage and could not grow until it claims less.
  const size_t claimed = cache->claimed_bytes();
  while (limit < claimed && budget_.TryRaise(&limit)) {
  }
  cache->SetMaxBytes(limit);
  caches_.Prepend(cache);
  cache->record.listed = true;
  all_.of_threads.Add(1);
  cache->set_detached(bypass_.load(std::memory_order_relaxed));
  slot.cache = cache;
  if (cache->detached()) return;
  // The lock is held: a thread that takes caches must not find this one in the list while its owner
  // is about to use its bins.
  slot.bins.store(&cache->table().bins(), std::memory_order_release);
}

void Registry::RemoveLocked(ThreadCache* cache) {
  if (next_victim_ == cache) next_victim_ = IntrusiveList<ThreadCache>::Next(cache);
  caches_.Remove(cache);
  cache->record.listed = false;
  all_.of_threads.Subtract(1);
  cache->shard().RemoveThread();
  budget_.RemoveCache(cache->max_bytes());
  UpdateMaxBinBytesOfFreesLocked();
}

void Registry::Destroy(ThreadCache* cache) {
  const bool inherits = inheritance_.load(std::memory_order_relaxed);
  const size_t may_be_left = inherits ? Shares().inherited_caches : 0;
  BinArraysInFlight arrays;
  {
    const SpinLockHolder holder(lock_);
    RemoveLocked(cache);
    // The lock is held: a thread that has taken the cache stores the pointer back before it
    // releases the lock, so never after this store.
    cache->slot().bins.store(const_cast<Bins*>(&kEmptyBins), std::memory_order_release);
    const size_t claimed = cache->claimed_bytes();
    if (inherited_bytes_ + claimed <= may_be_left && claimed > 0) {
      inherited_bytes_ += claimed;
      inherited_.Prepend(cache);
      return;
    }
    RetireLocked(cache, &arrays);
  }
  ReturnArrays(&arrays, central_, arena_);
}

void Registry::CheckInvariants() {
  const SpinLockHolder holder(lock_);
  int64_t max_bytes = 0;
  size_t of_threads = 0;
  size_t orphans = 0;
  for (ThreadCache* cache = caches_.first(); cache != nullptr; cache = caches_.Next(cache)) {
    TC_CHECK(cache->record.listed);  // R5
    ++of_threads;
    const Bins* const reachable = cache->detached() ? &kEmptyBins : &cache->table().bins();
    TC_CHECK(cache->slot().bins.load(std::memory_order_relaxed) == reachable);  // R1
    max_bytes += static_cast<int64_t>(cache->max_bytes());
    cache->table().CheckInvariants();
  }
  TC_CHECK(static_cast<int64_t>(budget_.total()) - budget_.unclaimed() == max_bytes);  // R2
  for (ThreadCache* cache = orphans_.first(); cache != nullptr; cache = orphans_.Next(cache)) {
    ++orphans;
    cache->table().CheckInvariants();
  }
  TC_CHECK(of_threads == all_.of_threads.value() && orphans == all_.orphans.value());  // R6
  for (ThreadCache* cache = unused_.first(); cache != nullptr; cache = unused_.Next(cache)) {
    TC_CHECK(cache->claimed_bytes() == 0 && !cache->record.listed);  // R5
    cache->table().CheckInvariants();
  }
  size_t inherited_bytes = 0;
  for (ThreadCache* cache = inherited_.first(); cache != nullptr; cache = inherited_.Next(cache)) {
    TC_CHECK(cache->claimed_bytes() > 0);  // R3
    inherited_bytes += cache->claimed_bytes();
    cache->table().CheckInvariants();
  }
  TC_CHECK(inherited_bytes == inherited_bytes_);  // R3
  central_.shards().ForEach([this](const Shard& shard) {
    size_t threads = 0;
    size_t caches = 0;
    for (const auto* list : {&caches_, &inherited_, &orphans_}) {
      for (ThreadCache* cache = list->first(); cache != nullptr; cache = list->Next(cache)) {
        if (&cache->shard() != &shard) continue;
        ++caches;
        threads += list == &caches_ ? 1 : 0;
      }
    }
    TC_CHECK(shard.num_threads() == threads);                 // R4
    TC_CHECK(central_.shards().num_caches(shard) == caches);  // R4
  });
}

void Registry::OrphanOthersInChild(const ThreadSlot* survivor) TC_NO_THREAD_SAFETY_ANALYSIS {
  for (ThreadCache* cache = caches_.first(); cache != nullptr;) {
    ThreadCache* const next = caches_.Next(cache);
    if (&cache->slot() != survivor) {
      RemoveLocked(cache);
      // The bins of a thread that was moving several objects may be inconsistent: the child leaks
      // their objects.
      if (cache->changing()) {
        cache->table().Leak();
        central_.shards().Return(cache->shard());
        unused_.Prepend(cache);
      } else {
        AddOrphanLocked(cache);
      }
    }
    cache = next;
  }
}

void Registry::AddOrphanLocked(ThreadCache* cache) {
  orphans_.Prepend(cache);
  all_.orphans.Add(1);
  has_orphans_.store(true, std::memory_order_relaxed);
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
    if (orphan == nullptr) return false;
    all_.orphans.Subtract(1);
    RetireLocked(orphan, &arrays);
  }
  ReturnArrays(&arrays, central_, arena_);
  return true;
}

RegistryTotals TotalsOf(const Registry& registry) {
  RegistryTotals totals;
  registry.all().ForEachTable([&totals](const BinTable& table) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      totals.cached_objects[i] += table.CachedObjects(static_cast<SizeClass>(i));
    }
    totals.array_bytes += table.array_bytes();
  });
  totals.caches = HeldCaches(registry);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    totals.cached_bytes += totals.cached_objects[i] * kSizeClasses.size(static_cast<SizeClass>(i));
  }
  return totals;
}

size_t CachedObjects(const Registry& registry, SizeClass c) {
  size_t objects = 0;
  registry.all().ForEachTable(
      [&objects, c](const BinTable& table) { objects += table.CachedObjects(c); });
  return objects;
}

bool ThreadStacksHold(Registry& registry, uintptr_t address, uintptr_t limit) {
  bool found = false;
  registry.ForEachCache([&](const ThreadCache& cache, Registry::Holder holder) {
    if (holder != Registry::Holder::kThread) return;
    const uintptr_t slot = reinterpret_cast<uintptr_t>(&cache.slot());
    found |= address >= cache.first_frame() && address < slot && slot < limit;
  });
  return found;
}

}  // namespace tcmalloc
