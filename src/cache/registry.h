// SPDX-License-Identifier: BSD-3-Clause
// Registry: all thread caches of a heap: their creation when a thread first needs one, their end
// when the thread ends, what becomes of them in a forked child, how large each may be, and how
// another thread empties them.
//
// Taking. A cache is taken as thread_slot.h describes, with the registry's lock held from the first
// swap of a pointer to the last one put back. Meanwhile the taker only detaches the arrays from the
// bins; the objects in them go to the central cache afterwards, without the lock. So a cache is
// never away from its owner for longer than a membarrier and the detaching of a few caches,
// no taking outlasts the lock, and neither fork nor a thread's end can come in the middle of one.
// Invariants
//   R1  A listed cache is reachable through its slot, except while the lock is held or the cache is
//       detached; its slot is the memory of a thread that has not ended.
//   R2  The budget has given out exactly the listed caches' max_bytes.
//   R3  inherited_bytes_ is what the caches in inherited_ claim.
//
// Synchronization. LockRank::kRegistry covers the lists, the lifetimes and the budget; a membarrier
// is called with it held, no other system call. Cost. Create and destroy: a lock and a few arena
// operations, no system call in the steady state.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/intrusive_list.h"
#include "cache/cache_budget.h"
#include "cache/thread_cache.h"
#include "os/spinlock.h"

namespace tcmalloc {

class Registry {
 public:
  // Makes every thread of the process execute a full barrier; false when it cannot, or may not.
  using Barrier = bool (*)();

  // Whose a cache is.
  enum class Holder : uint8_t {
    kThread,  // a thread that may be at work in it
    kOrphan,  // a thread that exists in the parent process only
    kNobody,  // it was left by a thread that ended, or is between Create and Register
  };

  Registry(CentralCache& central, MetadataArena& arena, Barrier barrier)
      : central_(central),
        arena_(arena),
        barrier_(barrier),
        budget_(central.Shares().thread_caches) {}

  // A cache for the calling thread, whose slot is `slot`: one that another thread has left, or a
  // new one; null when there is no memory for it.
  ThreadCache* Create(ThreadSlot& slot) TC_EXCLUDES(lock_);
  // Makes it reachable: through its slot by the owner, through the list by others.
  void Register(ThreadCache* cache) TC_EXCLUDES(lock_);
  // Frees a cache that was created and not registered, with what is in it.
  void Discard(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Ends a registered cache, by its owner: its slot leads to the empty bins from then on. The cache
  // is left to the next thread that needs one, as it is, where caches are inherited and what all
  // that are left claim stays within their share (RetentionShares); else its objects go to the
  // central cache.
  void Destroy(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Whether caches of ended threads are left to new threads; at first they are not.
  void SetInheritance(bool on) { inheritance_.store(on, std::memory_order_relaxed); }

  // Limits of the caches' sizes, in bytes (see CacheBudget). When the caches have more than a new
  // total, those with more than an equal share lose what is above it, and give objects up at their
  // next garbage collection. The total follows the caches' share (RetentionShares) until it is set.
  void SetTotalLimit(size_t bytes) TC_EXCLUDES(lock_);
  // Adapts the total to the present share. Caches that ask to grow do so, too; this is for times
  // when none does. Frees inherited caches that are above their share.
  void FollowRetention() TC_EXCLUDES(lock_);
  void SetMinPerCache(size_t bytes) TC_EXCLUDES(lock_);
  size_t total_limit() TC_EXCLUDES(lock_);
  size_t min_per_cache() TC_EXCLUDES(lock_);

  // Lets a cache grow, by its owner at a collection: from what is unclaimed, else at another
  // cache's cost. An idle cache that is met on the way is emptied.
  void RaiseLimit(ThreadCache* cache) TC_EXCLUDES(lock_);

  // The calling thread's cache needs nothing for a while: empties it and lets others have its
  // limit. Returns the bytes of objects that it held.
  size_t FlushAndYieldLimit(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Empties every thread's cache, and those that threads have left; returns the bytes of objects
  // that went to the central cache. `own` is the calling thread's, or null. A thread that is in the
  // middle of an operation, and where there is no barrier every other one, is asked to do it at its
  // next slow path: those bytes are not in the result. Threads that start meanwhile may be missed.
  size_t FlushAll(ThreadCache* own) TC_EXCLUDES(lock_);

  // While `wanted` answers true, no thread reaches its cache: every allocation and every free takes
  // the slow path, which serves it from the central cache. Asks `wanted` and does what it says; to
  // be called whenever its answer may have changed, with the calling thread's cache or null.
  //
  // Who calls it after a change to true, with a barrier at hand: whatever the caller wrote before
  // is seen by every operation that begins after the return, and these all take the slow path. Why:
  // the pointers of all listed caches are replaced by that to kEmptyBins before the barrier. An
  // access section whose load comes after it finds kEmptyBins, and what its thread reads then was
  // written before the barrier. One whose load comes before it belongs to an operation that began
  // before the return; it may end on the fast path, in bins that nobody else touches: nothing is
  // taken out of them. Caches that are registered later see the answer under the lock. Without a
  // barrier the same is true a moment later, when the stores have become visible.
  //
  // Each owner gets its cache back by itself (Reattach), on the slow path, so that no thread's
  // slot is written to but while it names the cache.
  void UpdateBypass(bool (*wanted)(), ThreadCache* own) TC_EXCLUDES(lock_);
  // The owner of a detached cache, on its slow path: makes it reachable again unless all are still
  // to be bypassed. Cost while they are: a load.
  void Reattach(ThreadCache* cache) TC_EXCLUDES(lock_);

  // The owner of a detached cache, outside of access sections: takes its arrays out of it. Nobody
  // else touches the bins of a detached cache, and only the owner makes it reachable again; the
  // lock orders this behind whoever took something out before it was detached. Nothing when it is
  // not detached.
  void EmptyDetached(ThreadCache* cache, BinArraysInFlight* arrays) TC_EXCLUDES(lock_);

  // Makes the next allocation of every thread, as good as, take the slow path (see
  // ThreadCache::Alarm).
  void AlarmAll() TC_EXCLUDES(lock_);

  // Calls f(cache, its holder) for every cache there is, with the lock held.
  template <typename F>
  void ForEachCache(F f) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    for (const auto* list : {&caches_, &orphans_, &inherited_, &unregistered_}) {
      for (const ThreadCache* cache = list->first(); cache != nullptr; cache = list->Next(cache)) {
        f(*cache, list == &caches_    ? Holder::kThread
                  : list == &orphans_ ? Holder::kOrphan
                                      : Holder::kNobody);
      }
    }
  }

  // In a forked child, by its only thread, with the lock held: the caches of all threads but the
  // one whose slot is `survivor` (null: of all) become orphans.
  void OrphanOthersInChild(const ThreadSlot* survivor);
  // The same where the lock could not be held, or guards what is in the middle of a change: as soon
  // as the lock can be taken. Nothing is taken from other threads' caches until then.
  void OrphanOthersLater(const ThreadSlot* survivor);
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

  // Checks every cache, and R1 and R2. No owner may be running.
  void CheckInvariants() TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  // Sets the total and lowers the limits that are above an equal share of it.
  void SetTotalLocked(size_t bytes) TC_REQUIRES(lock_);
  void RemoveLocked(ThreadCache* cache) TC_REQUIRES(lock_);
  void OrphanOthersIfDueLocked() TC_REQUIRES(lock_);
  // Frees a cache that is in no list, and from which nothing can be taken any more but its arrays,
  // which have been.
  size_t Free(ThreadCache* cache, BinArraysInFlight* arrays) TC_EXCLUDES(lock_);
  // The next candidate of the round-robin; null when there are no caches.
  ThreadCache* NextVictimLocked() TC_REQUIRES(lock_);
  // No change since a look at least Tuning::ThreadCaches::idle_ms ago.
  static bool IsIdle(ThreadCache* cache, int64_t now_ms);
  // What RaiseLimit does when nothing is unclaimed. Empties at most one cache, into `arrays`.
  void RaiseAtOthersCostLocked(ThreadCache* cache, size_t* limit, BinArraysInFlight* arrays)
      TC_REQUIRES(lock_);
  // Takes `n` caches and puts their arrays in front of `arrays`; false when nothing was taken.
  // Those that cannot be taken are asked to flush. Takes nothing while the lock is held for fork.
  bool TakeLocked(ThreadCache* const* victims, size_t n, BinArraysInFlight* arrays)
      TC_REQUIRES(lock_);

  // Constant after construction.
  CentralCache& central_;
  MetadataArena& arena_;
  const Barrier barrier_;

  SpinLock lock_{LockRank::kRegistry};
  IntrusiveList<ThreadCache> caches_ TC_GUARDED_BY(lock_);
  IntrusiveList<ThreadCache> orphans_ TC_GUARDED_BY(lock_);
  // Between Create and Register, or Discard.
  IntrusiveList<ThreadCache> unregistered_ TC_GUARDED_BY(lock_);
  // Left by threads that ended, for threads to come. Not in the budget.
  IntrusiveList<ThreadCache> inherited_ TC_GUARDED_BY(lock_);
  size_t inherited_bytes_ TC_GUARDED_BY(lock_) = 0;
  CacheBudget budget_ TC_GUARDED_BY(lock_);
  bool total_was_set_ TC_GUARDED_BY(lock_) = false;
  // In caches_, or null: start at the beginning.
  ThreadCache* next_victim_ TC_GUARDED_BY(lock_) = nullptr;
  // Calls of FlushAll so far.
  uint64_t flush_rounds_ TC_GUARDED_BY(lock_) = 0;

  // Written with lock_ held; a hint without it.
  std::atomic<bool> has_orphans_{false};
  std::atomic<bool> bypass_{false};
  // Decides what becomes of a cache, nothing else, so relaxed suffices.
  std::atomic<bool> inheritance_{false};

  // OrphanOthersLater was called. Written and read in a child that has one thread as yet, and with
  // lock_ held.
  std::atomic<bool> orphans_due_{false};
  const ThreadSlot* survivor_ = nullptr;
};

}  // namespace tcmalloc
