// SPDX-License-Identifier: BSD-3-Clause
// Registry: all thread caches of a heap. It creates a cache when a thread first needs one, ends it
// with the thread, handles the caches in a forked child, divides the budget, and empties caches for
// other threads.
//
// Taking. A cache is taken as thread_slot.h describes, with the registry's lock held from the first
// swap of a pointer to the last one put back. Meanwhile the taker only detaches the arrays from the
// bins; their objects go to the central cache afterwards, without the lock. So a cache is away from
// its owner for no longer than a membarrier and the detaching of a few caches, and neither fork nor
// a thread's end can come in the middle of a taking.
//
// Invariants
//   R1  A listed cache is reachable through its slot, except while the lock is held or the cache is
//       detached; its slot is the memory of a thread that has not ended.
//   R2  The budget has given out exactly the listed caches' max_bytes.
//   R3  inherited_bytes_ is what the caches in inherited_ claim; each of them claims something.
//   R4  Each shard's num_threads() is the number of caches in caches_ and unregistered_ that name
//       it; ShardMap::num_caches() of the shard counts those in inherited_ and orphans_ too.
//   R5  Each cache that was made is in one list, or is still on its way to unused_; those in
//       unused_ are empty. record.listed: in caches_.
//   R6  all_.of_threads is the number of caches in caches_, all_.orphans of those in orphans_.
//
// Synchronization. LockRank::kRegistry covers the lists, the lifetimes and the budget; a membarrier
// is called with it held, no other system call. Cost. Create and destroy: a lock and a few arena
// operations, no system call in the steady state.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "cache/all_caches.h"
#include "cache/cache_budget.h"
#include "cache/thread_cache.h"
#include "os/spinlock.h"

namespace tcmalloc {

class Registry {
 public:
  // Makes every thread of the process execute a full barrier; false when it cannot, or must not.
  using Barrier = bool (*)();

  // Who has a cache.
  enum class Holder : uint8_t {
    kThread,  // a thread that may be using it
    kOrphan,  // a thread that exists in the parent process only
    kNobody,  // it was left by a thread that ended, or is between Create and Register
  };

  Registry(CentralCache& central, MetadataArena& arena, Barrier barrier)
      : central_(central),
        arena_(arena),
        barrier_(barrier),
        budget_(central.Shares(0).thread_caches) {}

  // A cache for the calling thread, whose slot is `slot`: an inherited, an unused or a new one;
  // null when there is no memory for it.
  ThreadCache* Create(ThreadSlot& slot) TC_EXCLUDES(lock_);
  // Makes it reachable: through its slot by the owner, through the list by others. The limit of an
  // inherited cache is at least its claims, as far as bytes are unclaimed.
  void Register(ThreadCache* cache) TC_EXCLUDES(lock_);
  // Ends a cache that was created and not registered; its objects go to the central cache.
  void Discard(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Ends a registered cache, by its owner: its slot leads to the empty bins from then on. If
  // inheritance is on and the inherited caches' claims stay within their share (RetentionShares),
  // the next thread that needs a cache inherits it as it is. Otherwise its objects go to the
  // central cache.
  void Destroy(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Whether new threads inherit caches of ended ones; off at first.
  void SetInheritance(bool on) { inheritance_.store(on, std::memory_order_relaxed); }

  // Limits of the caches' sizes, in bytes (see CacheBudget). When the caches exceed a new total,
  // those above an equal share of it lose the excess, and return objects at their next garbage
  // collection. The total follows the caches' share (RetentionShares) until it is set.
  void SetTotalLimit(size_t bytes) TC_EXCLUDES(lock_);
  // Adapts the total to the present share. RaiseLimit does so, too; this is for times without such
  // calls. Frees inherited caches above their share.
  void FollowRetention() TC_EXCLUDES(lock_);
  void SetMinPerCache(size_t bytes) TC_EXCLUDES(lock_);
  // SetTotalLimit was called: the total is no longer a share, and must hold. No lock; relaxed,
  // since the limits that the thread reads are not exact either.
  bool total_was_set() const { return total_was_set_.load(std::memory_order_relaxed); }
  struct Limits {
    size_t total;
    size_t min_per_cache;
  };
  Limits limits() TC_EXCLUDES(lock_);

  enum class Budget : uint8_t {
    kSpare,  // the limit grew without lowering another
    kShort,  // it could not
  };
  // Raises a cache's limit, by its owner at a collection: from the unclaimed rest, else by stealing
  // from another cache. Empties an idle cache that it finds on the way.
  Budget RaiseLimit(ThreadCache* cache) TC_EXCLUDES(lock_);

  // For a thread that will not need its cache for a while: empties it and frees its limit for
  // others. Returns the bytes of objects that it held.
  size_t FlushAndYieldLimit(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Empties every thread's cache and the inherited ones; returns the bytes of objects that went to
  // the central cache. `own` is the calling thread's, or null. A thread that is in the middle of an
  // operation, and without a barrier every other thread, is requested to do it at its next slow
  // path: those bytes are not in the result. Threads that start meanwhile may be missed.
  size_t FlushAll(ThreadCache* own) TC_EXCLUDES(lock_);

  // Flushes the caches of idle threads: those that have not changed since another look at least
  // Tuning::ThreadCaches::idle_ms ago. Returns the bytes.
  size_t FlushIdle() TC_EXCLUDES(lock_) { return FlushOthers(nullptr, true); }

  // Bypass. While `wanted` returns true, no thread reaches its cache: every allocation and every
  // free takes the slow path, which the central cache serves. Calls `wanted` and acts on the
  // result. To be called whenever that may have changed, with the calling thread's cache or null.
  //
  // Guarantee, after a change to true and with a barrier: every operation that begins after the
  // return sees everything that the caller wrote before, and takes the slow path. Why: the pointers
  // of all listed caches are replaced by that to kEmptyBins before the barrier. An access section
  // whose load comes after it finds kEmptyBins, and its thread then reads what was written before
  // the barrier. One whose load comes before it belongs to an operation that began before the
  // return; it may end on the fast path, in bins that nobody else touches: nothing is taken out of
  // them. Caches that are registered later see the result under the lock. Without a barrier the
  // same is true a moment later, when the stores have become visible.
  //
  // Each owner reattaches its cache itself (Reattach), on the slow path, so that a thread's slot is
  // written to only while it names the cache.
  void UpdateBypass(bool (*wanted)(), ThreadCache* own) TC_EXCLUDES(lock_);
  // By the owner of a detached cache, on its slow path: makes it reachable again unless the bypass
  // continues. Cost during the bypass: a load.
  void Reattach(ThreadCache* cache) TC_EXCLUDES(lock_);

  // By the owner of a detached cache, outside of access sections: takes its arrays out of it. Does
  // nothing when it is not detached. Nobody else touches the bins of a detached cache, and only the
  // owner makes it reachable again. The lock orders this after a taking that came before the
  // detaching.
  void EmptyDetached(ThreadCache* cache, BinArraysInFlight* arrays) TC_EXCLUDES(lock_);

  // Makes the next allocation of nearly every thread take the slow path (see
  // ThreadCache::Alarm).
  void AlarmAll() TC_EXCLUDES(lock_);

  // For readers without the lock.
  const AllCaches& all() const { return all_; }

  // Calls f(cache, its holder) for every cache but the unused ones, with the lock held.
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

  // In a forked child, by its only thread, with the lock held: the caches of all other threads
  // become orphans. `survivor` is the slot of the child's thread, or null.
  void OrphanOthersInChild(const ThreadSlot* survivor);
  // As OrphanOthersInChild, where the lock could not be held, or guards a half-done change: done
  // when the lock can next be taken. Nothing is taken from other threads' caches until then.
  void OrphanOthersLater(const ThreadSlot* survivor);
  // Collects the objects of one orphan; false when there is none.
  bool AdoptOrphan() TC_EXCLUDES(lock_);
  // The cheap form, for slow paths: one orphan at a time, so that a forked child that is about to
  // exec does not touch every cache of its parent.
  void AdoptOrphanIfAny() {
    if (__builtin_expect(has_orphans_.load(std::memory_order_relaxed), false)) AdoptOrphan();
  }

  // Checks every cache, and R1 and R2. No owner may be running.
  void CheckInvariants() TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  friend struct FieldTable;

  RetentionShares Shares() const { return central_.Shares(all_.of_threads.value()); }

  // Sets the total and lowers the limits that are above an equal share of it.
  void SetTotalLocked(size_t bytes) TC_REQUIRES(lock_);
  void RemoveLocked(ThreadCache* cache) TC_REQUIRES(lock_);
  void AddOrphanLocked(ThreadCache* cache) TC_REQUIRES(lock_);
  void OrphanOthersIfDueLocked() TC_REQUIRES(lock_);
  // Makes a cache and puts it in unused_; false when there is no memory.
  bool MakeCache() TC_EXCLUDES(lock_);
  // Hands an inherited or an unused cache to the owner of `slot`. Null when there is none, or when
  // the shard for it does not exist yet; with `any_shard` an existing one will do.
  ThreadCache* TryHandOutLocked(ThreadSlot& slot, bool any_shard) TC_REQUIRES(lock_);
  // Ends a cache that is in no list: moves its arrays to `arrays`, whose objects the caller returns
  // to the central cache without the lock. The shard is returned together with the cache, so that a
  // child that is forked meanwhile has no shard claimed for a cache that it does not know.
  void RetireLocked(ThreadCache* cache, BinArraysInFlight* arrays) TC_REQUIRES(lock_);
  // Ends inherited caches until those that are left claim at most `kept_bytes`. Returns the bytes
  // of their objects.
  size_t FreeInheritedAbove(size_t kept_bytes) TC_EXCLUDES(lock_);
  // The next candidate of the round-robin; null when there are no caches.
  ThreadCache* NextVictimLocked() TC_REQUIRES(lock_);
  // It has not changed since a look at least Tuning::ThreadCaches::idle_ms ago.
  static bool IsIdle(ThreadCache* cache, int64_t now_ms);
  // RaiseLimit, when nothing is unclaimed. Empties at most one cache, into `arrays`.
  void RaiseAtOthersCostLocked(ThreadCache* cache, size_t* limit, BinArraysInFlight* arrays)
      TC_REQUIRES(lock_);
  // FlushAll without `own`; with `idle_only` those that are not idle stay as they are.
  size_t FlushOthers(ThreadCache* own, bool idle_only) TC_EXCLUDES(lock_);
  // The next caches to flush, from `*next` on, which moves: at most `n` of them, after a look at
  // not many more. Returns how many.
  size_t CollectVictimsLocked(ThreadCache** next, const ThreadCache* own, bool idle_only,
                              ThreadCache** victims, size_t n) TC_REQUIRES(lock_);
  // Takes `n` caches and puts their arrays in front of `arrays`; false when nothing was taken.
  // Requests a flush from owners of caches that cannot be taken. Takes nothing while the lock is
  // held for fork.
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
  // Left by ended threads for new ones. Not in the budget.
  IntrusiveList<ThreadCache> inherited_ TC_GUARDED_BY(lock_);
  size_t inherited_bytes_ TC_GUARDED_BY(lock_) = 0;
  // Emptied, without a shard.
  IntrusiveList<ThreadCache> unused_ TC_GUARDED_BY(lock_);
  CacheBudget budget_ TC_GUARDED_BY(lock_);
  // A cache in caches_, or null: start at the beginning.
  ThreadCache* next_victim_ TC_GUARDED_BY(lock_) = nullptr;

  // Changed with lock_ held; read by any thread.
  AllCaches all_;
  // Written with lock_ held; read by any thread. No other data depends on it, so relaxed suffices.
  std::atomic<bool> total_was_set_{false};

  // Written with lock_ held; a hint without it.
  std::atomic<bool> has_orphans_{false};
  std::atomic<bool> bypass_{false};
  // No other data depends on it, so relaxed suffices.
  std::atomic<bool> inheritance_{false};

  // OrphanOthersLater was called. Written and read in a child that still has one thread, and with
  // lock_ held.
  std::atomic<bool> orphans_due_{false};
  const ThreadSlot* survivor_ = nullptr;
};

}  // namespace tcmalloc
