// SPDX-License-Identifier: BSD-3-Clause
// The operations of one thread on the caches of others: it steals from their limits, and empties
// them.
#include "base/counters.h"
#include "os/clock.h"
#include "thread_cache/cache_budget.h"
#include "thread_cache/registry.h"

namespace tcmalloc {

// How many other caches are tried for a step when all bytes are claimed.
constexpr int kMaxCandidates = 10;

void Registry::SetTotalLimit(std::optional<size_t> bytes) {
  {
    const SpinLockHolder holder(lock_);
    total_was_set_.store(bytes.has_value(), std::memory_order_relaxed);
    if (bytes.has_value()) SetTotalLocked(*bytes);
  }
  if (!bytes.has_value()) FollowRetention();
}

void Registry::FollowRetention() {
  const RetentionShares shares = Shares();
  {
    const SpinLockHolder holder(lock_);
    if (!total_was_set()) SetTotalLocked(shares.thread_caches);
  }
  FreeInheritedAbove(shares.inherited_caches);
}

size_t Registry::FreeInheritedAbove(size_t kept_bytes) {
  size_t bytes = 0;
  for (;;) {
    BinArraysInFlight arrays;
    {
      const SpinLockHolder holder(lock_);
      if (inherited_bytes_ <= kept_bytes) return bytes;
      ThreadCache* const cache = inherited_.PopFirst();
      inherited_bytes_ -= cache->claimed_bytes();
      RetireLocked(cache, &arrays);
    }
    bytes += ReturnArrays(&arrays, central_, arena_);
  }
}

void Registry::SetTotalLocked(size_t bytes) {
  budget_.SetTotal(bytes);
  UpdateMaxBinBytesOfFreesLocked();
  if (budget_.unclaimed() >= 0) return;
  for (ThreadCache* cache = caches_.first(); cache != nullptr; cache = caches_.Next(cache)) {
    CountSteps(Step::kCacheVisited);
    size_t limit = cache->max_bytes();
    budget_.LowerToShare(&limit);
    cache->SetMaxBytes(limit);
  }
}

void Registry::SetMinPerCache(size_t bytes) {
  const SpinLockHolder holder(lock_);
  budget_.SetMinPerCache(bytes);
  UpdateMaxBinBytesOfFreesLocked();
}

Registry::Limits Registry::limits() {
  const size_t share = Shares().thread_caches;
  const SpinLockHolder holder(lock_);
  return {.total = total_was_set() ? budget_.total() : share,
          .min_per_cache = budget_.min_per_cache()};
}

ThreadCache* Registry::NextVictimLocked() {
  if (next_victim_ == nullptr) next_victim_ = caches_.first();
  ThreadCache* const victim = next_victim_;
  if (victim != nullptr) next_victim_ = IntrusiveList<ThreadCache>::Next(victim);
  return victim;
}

bool Registry::IsIdle(ThreadCache* cache, int64_t now_ms) {
  ThreadCache::RegistryRecord& record = cache->record;
  const uint64_t stamp = cache->ActivityStamp();
  if (stamp == record.activity_stamp) return now_ms - record.stamped_at_ms >= kIdleCacheMs;
  record.activity_stamp = stamp;
  record.stamped_at_ms = now_ms;
  return false;
}

bool Registry::RaiseLimit(ThreadCache* cache) {
  const size_t share = Shares().thread_caches;
  bool spare = true;
  BinArraysInFlight arrays;
  {
    const SpinLockHolder holder(lock_);
    if (!total_was_set()) {
      budget_.SetTotal(share);
      UpdateMaxBinBytesOfFreesLocked();
    }
    size_t limit = cache->max_bytes();
    if (!budget_.TryRaise(&limit)) {
      spare = false;
      RaiseAtOthersCostLocked(cache, &limit, &arrays);
    }
    cache->SetMaxBytes(limit);
  }
  ReturnArrays(&arrays, central_, arena_);
  return spare;
}

void Registry::RaiseAtOthersCostLocked(ThreadCache* cache, size_t* limit,
                                       BinArraysInFlight* arrays) {
  const int64_t now_ms = CoarseMilliseconds();
  bool barrier_spent = false;
  bool raised = false;
  for (int i = 0; !raised && i < kMaxCandidates; ++i) {
    ThreadCache* const victim = NextVictimLocked();
    CountSteps(Step::kCacheVisited);
    if (victim == cache) continue;
    size_t victims_limit = victim->max_bytes();
    const bool idle = victim->claimed_bytes() > 0 && IsIdle(victim, now_ms);
    if (idle && !barrier_spent) {
      barrier_spent = true;
      // A cache that could not be taken, because its owner was active, keeps its limit.
      if (!TakeLocked(&victim, 1, arrays)) continue;
      budget_.TakeAll(&victims_limit);
      raised = budget_.TryRaise(limit);
    } else {
      raised = budget_.TrySteal(limit, &victims_limit);
    }
    victim->SetMaxBytes(victims_limit);
  }
}

size_t Registry::FlushAndYieldLimit(ThreadCache* cache) {
  {
    const SpinLockHolder holder(lock_);
    size_t limit = cache->max_bytes();
    budget_.TakeAll(&limit);
    cache->SetMaxBytes(limit);
  }
  return cache->Flush();
}

bool Registry::TakeLocked(ThreadCache* const* victims, size_t n, BinArraysInFlight* arrays) {
  if (orphans_due_.load(std::memory_order_relaxed)) return false;
  if (lock_.HeldForForkByThisThread()) {
    // Another library's fork handler called this function. In the child the owners do not exist,
    // and fork may have copied their bins in the middle of a change.
    return false;
  }
  const BinArray* const before = arrays->first();
  bool swapped[kDetachedAtOnce];
  for (size_t i = 0; i < n; ++i) {
    std::atomic<Bins*>& bins = victims[i]->slot().bins;
    // Any other value (see R1) means that the slot's memory belongs to another thread, because its
    // thread ended unnoticed: leave it alone.
    swapped[i] = bins.load(std::memory_order_relaxed) == &victims[i]->table().bins();
    if (swapped[i]) bins.store(const_cast<Bins*>(&kEmptyBins), std::memory_order_relaxed);
  }
  const bool barrier_passed = barrier_();
  for (size_t i = 0; i < n; ++i) {
    if (!swapped[i]) continue;
    ThreadSlot& slot = victims[i]->slot();
    // Acquire: if this load reads the end of the owner's last access section, the stores of that
    // section are visible.
    if (barrier_passed && slot.busy.load(std::memory_order_acquire) == ThreadSlot::kIdle) {
      victims[i]->table().Detach(arrays);
    } else {
      victims[i]->RequestFlush();
    }
    // Release: the owner that loads the pointer sees the bins as they are now.
    slot.bins.store(&victims[i]->table().bins(), std::memory_order_release);
  }
  return arrays->first() != before;
}

void Registry::UpdateBypass(bool (*wanted)(), ThreadCache* own) {
  const SpinLockHolder holder(lock_);
  const bool bypass = wanted();
  bypass_.store(bypass, std::memory_order_relaxed);
  if (!bypass) return;
  // Around fork only the calling thread's slot is known to exist (see TakeLocked).
  const bool own_only =
      lock_.HeldForForkByThisThread() || orphans_due_.load(std::memory_order_relaxed);
  bool others = false;
  for (ThreadCache* cache = caches_.first(); cache != nullptr; cache = caches_.Next(cache)) {
    if (cache->detached() || (own_only && cache != own)) continue;
    std::atomic<Bins*>& bins = cache->slot().bins;
    if (bins.load(std::memory_order_relaxed) != &cache->table().bins()) continue;
    cache->set_detached(true);
    bins.store(const_cast<Bins*>(&kEmptyBins), std::memory_order_relaxed);
    others |= cache != own;
  }
  // A single thread sees its own stores and needs no barrier, so a sandboxed process with one
  // thread makes no such call.
  if (others) barrier_();
}

void Registry::Reattach(ThreadCache* cache) {
  if (!cache->detached() || bypass_.load(std::memory_order_relaxed)) return;
  const SpinLockHolder holder(lock_);
  if (bypass_.load(std::memory_order_relaxed)) return;
  cache->set_detached(false);
  cache->slot().bins.store(&cache->table().bins(), std::memory_order_release);
}

void Registry::AlarmAll() {
  const SpinLockHolder holder(lock_);
  for (ThreadCache* cache = caches_.first(); cache != nullptr;
       cache = IntrusiveList<ThreadCache>::Next(cache)) {
    cache->Alarm();
  }
}

size_t Registry::FlushAll(ThreadCache* own) {
  return (own == nullptr ? 0 : own->Flush()) + FlushOthers(own, false).bytes;
}

Registry::IdleFlush Registry::FlushOthers(ThreadCache* own, bool idle_only) {
  size_t bytes = FreeInheritedAbove(0);
  bool in_use = false;
  // Caches that are made later precede this one in the list, and are not visited. So the flush ends
  // even if new threads start all the time.
  ThreadCache* next = all_.newest();
  while (next != nullptr) {
    BinArraysInFlight arrays;
    {
      const SpinLockHolder holder(lock_);
      ThreadCache* victims[kDetachedAtOnce];
      const size_t n =
          CollectVictimsLocked(&next, own, idle_only, victims, kDetachedAtOnce, &in_use);
      if (n > 0) TakeLocked(victims, n, &arrays);
    }
    bytes += ReturnArrays(&arrays, central_, arena_);
  }
  return {.bytes = bytes, .in_use = in_use};
}

size_t Registry::CollectVictimsLocked(ThreadCache** next, const ThreadCache* own, bool idle_only,
                                      ThreadCache** victims, size_t n, bool* in_use) {
  const int64_t now_ms = CoarseMilliseconds();
  size_t found = 0;
  size_t looks = kLookedAtOnce;
  for (; *next != nullptr && found < n && looks > 0; *next = (*next)->record.made_before, --looks) {
    ThreadCache* const cache = *next;
    CountSteps(Step::kCacheVisited);
    if (cache == own || !cache->record.listed) continue;
    if (idle_only && !IsIdle(cache, now_ms)) {
      *in_use = true;
      continue;
    }
    if (cache->claimed_bytes() > 0) victims[found++] = cache;
  }
  return found;
}

}  // namespace tcmalloc
