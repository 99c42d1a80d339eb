// SPDX-License-Identifier: BSD-3-Clause
// Registry: all thread caches of a heap: their creation when a thread first needs one, their end
// when the thread ends, and what becomes of them in a forked child.
//
// Synchronization. LockRank::kRegistry covers the list and lifetimes, not the caches' contents.
// Cost. Create and destroy: a lock and a few arena operations, no system call in the steady state.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/intrusive_list.h"
#include "cache/thread_cache.h"
#include "os/spinlock.h"

namespace tcmalloc {

class Registry {
 public:
  struct Totals {
    size_t cached_bytes = 0;
    size_t array_bytes = 0;
    size_t caches = 0;
  };

  Registry(CentralCache& central, MetadataArena& arena) : central_(central), arena_(arena) {}

  // A cache for the calling thread, whose slot is `slot`; null when there is no memory for it. The
  // caller makes it reachable.
  ThreadCache* Create(ThreadSlot& slot) TC_EXCLUDES(lock_);

  // Ends a cache, by its owner: its slot leads to the empty bins from then on, its objects go to
  // the central cache.
  void Destroy(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Sums over all caches; racy while their owners run.
  Totals GetTotals() TC_EXCLUDES(lock_);

  // Objects of class `c` in all caches; racy while their owners run.
  size_t CachedObjects(SizeClass c) TC_EXCLUDES(lock_);

  // `address` lies between some registered thread's slot, which is below `limit`, and the frame in
  // which the thread got its cache. The slot of a thread whose stack is above it (the main thread)
  // holds nothing.
  bool StackHolds(uintptr_t address, uintptr_t limit) TC_EXCLUDES(lock_);

  // In a forked child, by its only thread, with the lock held: the caches of all threads but
  // `survivor` (which may be null) become orphans.
  void OrphanOthersInChild(ThreadCache* survivor);
  // Collects what one orphan holds; false when there is none.
  bool AdoptOrphan() TC_EXCLUDES(lock_);
  void AdoptOrphans() TC_EXCLUDES(lock_) {
    while (AdoptOrphan()) {
    }
  }
  // The cheap form: to be called now and then from slow paths: it keeps a forked child that
  // is about to exec from touching every cache of its parent.
  void AdoptOrphanIfAny() {
    if (__builtin_expect(has_orphans_.load(std::memory_order_relaxed), false)) AdoptOrphan();
  }

  // Checks every cache. No owner may be running.
  void CheckInvariants() TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  // Constant after construction.
  CentralCache& central_;
  MetadataArena& arena_;

  SpinLock lock_{LockRank::kRegistry};
  IntrusiveList<ThreadCache> caches_ TC_GUARDED_BY(lock_);
  IntrusiveList<ThreadCache> orphans_ TC_GUARDED_BY(lock_);

  // Written with lock_ held; a hint without it.
  std::atomic<bool> has_orphans_{false};
};

}  // namespace tcmalloc
