// SPDX-License-Identifier: BSD-3-Clause
// Registry: all thread caches of a heap. It creates a cache when a thread first needs one, and ends
// it when the thread ends. It handles the caches in a forked child, divides the budget, and lets
// one thread empty the caches of others.
//
// Taking. A thread takes caches as thread_slot.h describes, and holds the registry's lock from the
// first swap of a pointer until the last pointer is restored. Meanwhile the taker only detaches the
// arrays from the bins; their objects go to the central cache afterwards, without the lock. So the
// owner lacks its cache only for the time of a membarrier and the detaching of a few caches.
// Neither fork nor a thread's end can happen while a cache is being taken.
//
// Invariants
//   R1  A listed cache is reachable through its slot, except while the lock is held or the cache is
//       detached; its slot is the memory of a thread that has not ended.
//   R2  The claimed part of the budget is the sum of the listed caches' max_bytes.
//   R3  inherited_bytes_ is the bytes that the caches in inherited_ claim; each claims some.
//   R4  Each shard's num_threads() is the number of caches in caches_ that refer to it;
//       ShardMap::num_caches() of the shard counts those in inherited_ and orphans_ too.
//   R5  Each cache that was made is in one list, or a thread is about to put it into unused_.
//       Caches in unused_ are empty. record.listed is true for the caches in caches_.
//   R6  all_.of_threads is the number of caches in caches_, all_.orphans the number in orphans_.
//
// Synchronization. LockRank::kRegistry guards the lists, the lifetimes and the budget. The only
// system call under this lock is membarrier. Cost. Creating or destroying a cache takes a lock and
// a few arena operations, and no system call in the steady state.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/counters.h"
#include "base/intrusive.h"
#include "base/size_classes.h"
#include "base/tuned.h"
#include "os/spinlock.h"
#include "thread_cache/cache_budget.h"
#include "thread_cache/thread_cache.h"

namespace tcmalloc {

// A cache that has not changed for this long is idle, so other threads may empty it. Not measured.
inline constexpr int64_t kIdleCacheMs = Tuned(100, 10, 10'000);
// The most caches that one membarrier detaches: few enough that a thread that starts or ends
// meanwhile does not notice.
inline constexpr size_t kDetachedAtOnce = 32;
// The most caches that a flush examines under one hold of the registry's lock: each costs one or
// two cache lines that other CPUs write.
inline constexpr size_t kLookedAtOnce = 128;
static_assert(kLookedAtOnce >= kDetachedAtOnce);

// AllCaches: every thread cache that a registry has made, for readers without its lock.
//
// A cache is made once and never unmade: at the end of its thread it is emptied and kept for
// another one. Each cache points to the one made before it. That pointer is written before the
// release store that publishes the cache. So a walk that begins with an acquire load of the newest
// one visits each older cache exactly once, without a lock, and reads only words that are atomic on
// their own (see BinTable, "For any thread"). Objects that move during the walk may be counted
// twice or not at all.
//
// Thread safety: changes require the registry's lock; any thread may read.
class AllCaches {
 public:
  void Add(ThreadCache* cache) {
    cache->record.made_before = newest_.load(std::memory_order_relaxed);
    newest_.store(cache, std::memory_order_release);
  }
  // The cache that was made last; null when there is none.
  ThreadCache* newest() const { return newest_.load(std::memory_order_acquire); }

  // Calls f(bins) for the bins of every cache; most recent first. `f` may call only functions of
  // BinTable that any thread may call.
  template <typename F>
  void ForEachTable(F f) const {
    for (const ThreadCache* cache = newest(); cache != nullptr; cache = cache->record.made_before) {
      CountSteps(Step::kCacheVisited);
      f(cache->table());
    }
  }

  // The caches that living threads have, and those of threads that exist in the parent process
  // only.
  OwnedCounter of_threads;
  OwnedCounter orphans;

 private:
  std::atomic<ThreadCache*> newest_{nullptr};
};

class Registry {
 public:
  // Makes every thread of the process execute a full barrier; false if the OS or a sandbox refuses,
  // or a setting forbids the call.
  using Barrier = bool (*)();

  // Which kind of thread holds a cache.
  enum class Holder : uint8_t {
    kThread,  // a thread that may be using it
    kOrphan,  // a thread that exists in the parent process only
    kNobody,  // it was left by a thread that ended
  };

  Registry(CentralCache& central, MetadataArena& arena, Barrier barrier)
      : central_(central),
        arena_(arena),
        barrier_(barrier),
        budget_(central.Shares(0).thread_caches) {}

  // Gives the calling thread, whose slot is `slot`, a cache: an inherited, an unused or a new one.
  // From then on its owner finds it through the slot, and other threads through the list. The limit
  // of an inherited cache is at least its claims, as far as bytes are unclaimed. Returns null when
  // there is no memory for a cache.
  ThreadCache* Create(ThreadSlot& slot) TC_EXCLUDES(lock_);

  // Ends a cache. The owner calls it, and its slot points to the empty bins from then
  // on. If inheritance is on and the inherited caches' claims stay within their share
  // (RetentionShares), the next thread that needs a cache inherits it as it is. Otherwise its
  // objects go to the central cache.
  void Destroy(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Whether new threads inherit caches of ended ones; off at first.
  void SetInheritance(bool on) { inheritance_.store(on, std::memory_order_relaxed); }

  // Limits of the caches' sizes, in bytes (see CacheBudget). When the caches exceed a new total,
  // those above an equal share of it lose the excess, and return objects at their next garbage
  // collection. The total follows the caches' share (RetentionShares) until it is set, and again
  // after a call with nullopt.
  void SetTotalLimit(std::optional<size_t> bytes) TC_EXCLUDES(lock_);
  // Adapts the total to the present share. RaiseLimit does so, too; this function serves while no
  // thread calls RaiseLimit. Frees inherited caches above their share.
  void FollowRetention() TC_EXCLUDES(lock_);
  void SetMinPerCache(size_t bytes) TC_EXCLUDES(lock_);
  // True if SetTotalLimit set the total: then it is no longer a share, and the caches must stay
  // below it. Takes no lock; relaxed, since the limits that the thread reads are not exact either.
  bool total_was_set() const { return total_was_set_.load(std::memory_order_relaxed); }
  // CacheBudget::MaxBinBytesOfFrees. Takes no lock; relaxed, as above.
  size_t max_bin_bytes_of_frees() const {
    return max_bin_bytes_of_frees_.load(std::memory_order_relaxed);
  }
  struct Limits {
    size_t total;
    size_t min_per_cache;
  };
  Limits limits() TC_EXCLUDES(lock_);

  // Raises a cache's limit from the unclaimed rest, or else by stealing from another cache. The
  // owner calls it at a collection. Empties an idle cache that it finds on the way. False if
  // nothing was unclaimed.
  bool RaiseLimit(ThreadCache* cache) TC_EXCLUDES(lock_);

  // For a thread that will not need its cache for a while: empties the cache and makes its limit
  // available to others. Returns the bytes of objects that it held.
  size_t FlushAndYieldLimit(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Empties every thread's cache and the inherited ones; returns the bytes of objects that went to
  // the central cache. `own` is the calling thread's cache, or null. A thread that is in the middle
  // of an operation must flush its own cache at its next slow path, and so must every other thread
  // if there is no barrier; the result does not include those bytes. Threads that start meanwhile
  // may be missed.
  size_t FlushAll(ThreadCache* own) TC_EXCLUDES(lock_);

  struct IdleFlush {
    size_t bytes;  // that were flushed
    // True if a cache has changed since it was last examined, or was examined for the first time:
    // it may hold memory when its thread becomes idle.
    bool in_use;
  };
  // Flushes the caches of idle threads: those that have not changed since they were examined at
  // least kIdleCacheMs ago.
  IdleFlush FlushIdle() TC_EXCLUDES(lock_) { return FlushOthers(nullptr, true); }

  // Bypass. While `wanted` returns true, no thread reaches its cache: every allocation and every
  // free takes the slow path, which the central cache serves. Calls `wanted` and acts on the
  // result. Call it whenever that result may have changed. `own` is the calling thread's cache, or
  // null.
  //
  // Guarantee, after a change to true and with a barrier: every operation that begins after the
  // return sees everything that the caller wrote before, and takes the slow path. Why: before the
  // barrier, the pointers to all listed caches are replaced by the pointer to kEmptyBins. An access
  // section that loads the pointer after the barrier finds kEmptyBins, and its thread then reads
  // what was written before the barrier. An access section that loads the pointer before the
  // barrier belongs to an operation that began before the return. It may end on the fast path, in
  // bins that no other thread touches: nothing is taken out of them. Caches that are registered
  // later see the result under the lock. Without a barrier the same is true a moment later, when
  // the stores have become visible.
  //
  // Each owner reattaches its cache itself (Reattach), on the slow path, so that a thread's slot is
  // written to only while it names the cache.
  void UpdateBypass(bool (*wanted)(), ThreadCache* own) TC_EXCLUDES(lock_);
  // The owner of a detached cache calls it on its slow path. Makes the cache reachable again unless
  // the bypass continues. Cost during the bypass: a load.
  void Reattach(ThreadCache* cache) TC_EXCLUDES(lock_);

  // Makes the next allocation of nearly every thread take the slow path (see
  // ThreadCache::Alarm).
  void AlarmAll() TC_EXCLUDES(lock_);

  // All caches, for readers that do not hold the lock.
  const AllCaches& all() const { return all_; }

  // Calls f(cache, its holder) for every cache but the unused ones, with the lock held.
  template <typename F>
  void ForEachCache(F f) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    for (const auto* list : {&caches_, &orphans_, &inherited_}) {
      for (const ThreadCache* cache = list->first(); cache != nullptr; cache = list->Next(cache)) {
        f(*cache, list == &caches_    ? Holder::kThread
                  : list == &orphans_ ? Holder::kOrphan
                                      : Holder::kNobody);
      }
    }
  }

  // In a forked child, its only thread calls it with the lock held. The caches of all other threads
  // become orphans. `survivor` is the slot of the child's thread, or null.
  void OrphanOthersInChild(const ThreadSlot* survivor);
  // As OrphanOthersInChild, if the lock could not be held, or a change under it is unfinished. The
  // work is done when the lock can next be taken. Until then nothing is taken from other threads'
  // caches.
  void OrphanOthersLater(const ThreadSlot* survivor);
  // Collects the objects of one orphan; false when there is none.
  bool AdoptOrphan() TC_EXCLUDES(lock_);
  // The cheap form of AdoptOrphan, for slow paths. It collects one orphan at a time, so that a
  // forked child that is about to exec does not touch every cache of its parent.
  void AdoptOrphanIfAny() {
    if (__builtin_expect(has_orphans_.load(std::memory_order_relaxed), false)) AdoptOrphan();
  }

  // Checks every cache, and R1 and R2. No owner may be running.
  void CheckInvariants() TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  RetentionShares Shares() const { return central_.Shares(all_.of_threads.value()); }

  // Sets the total and lowers the limits that are above an equal share of it.
  void SetTotalLocked(size_t bytes) TC_REQUIRES(lock_);
  // Called after each change of the total, of the lower bound, or of the number of caches.
  void UpdateMaxBinBytesOfFreesLocked() TC_REQUIRES(lock_) {
    max_bin_bytes_of_frees_.store(budget_.MaxBinBytesOfFrees(), std::memory_order_relaxed);
  }
  void RegisterLocked(ThreadCache* cache, ThreadSlot& slot) TC_REQUIRES(lock_);
  void RemoveLocked(ThreadCache* cache) TC_REQUIRES(lock_);
  void AddOrphanLocked(ThreadCache* cache) TC_REQUIRES(lock_);
  void OrphanOthersIfDueLocked() TC_REQUIRES(lock_);
  // Makes a cache and puts it in unused_; false when there is no memory.
  bool MakeCache() TC_EXCLUDES(lock_);
  // Hands an inherited or an unused cache to the owner of `slot`. Null when there is none, or when
  // the shard for it does not exist yet; with `any_shard` an existing one will do.
  ThreadCache* TryHandOutLocked(ThreadSlot& slot, bool any_shard) TC_REQUIRES(lock_);
  // Ends a cache that is in no list: moves its arrays to `arrays`, whose objects the caller returns
  // to the central cache without the lock. It returns the shard under the same lock, so that a
  // child that is forked meanwhile has no shard assigned to a cache that is in no list.
  void RetireLocked(ThreadCache* cache, BinArraysInFlight* arrays) TC_REQUIRES(lock_);
  // Ends inherited caches until those that are left claim at most `kept_bytes`. Returns the bytes
  // of their objects.
  size_t FreeInheritedAbove(size_t kept_bytes) TC_EXCLUDES(lock_);
  // The next candidate of the round-robin; null when there are no caches.
  ThreadCache* NextVictimLocked() TC_REQUIRES(lock_);
  // True if the cache has not changed since it was examined at least kIdleCacheMs ago.
  static bool IsIdle(ThreadCache* cache, int64_t now_ms);
  // The part of RaiseLimit for when nothing is unclaimed. Empties at most one cache, into `arrays`.
  void RaiseAtOthersCostLocked(ThreadCache* cache, size_t* limit, BinArraysInFlight* arrays)
      TC_REQUIRES(lock_);
  // As FlushAll, but skips `own`; with `idle_only` also the caches that are not idle.
  IdleFlush FlushOthers(ThreadCache* own, bool idle_only) TC_EXCLUDES(lock_);
  // Finds at most `n` caches to flush, from `*next` on, and moves `*next` past them. Looks at a
  // bounded number of caches (kLookedAtOnce). Returns how many it found, and sets `*in_use` if
  // `idle_only` made it skip one.
  size_t CollectVictimsLocked(ThreadCache** next, const ThreadCache* own, bool idle_only,
                              ThreadCache** victims, size_t n, bool* in_use) TC_REQUIRES(lock_);
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
  // Caches that ended threads left for new ones. They are not in the budget.
  IntrusiveList<ThreadCache> inherited_ TC_GUARDED_BY(lock_);
  size_t inherited_bytes_ TC_GUARDED_BY(lock_) = 0;
  // Empty caches without a shard.
  IntrusiveList<ThreadCache> unused_ TC_GUARDED_BY(lock_);
  CacheBudget budget_ TC_GUARDED_BY(lock_);
  // A cache in caches_; null means to start at the beginning.
  ThreadCache* next_victim_ TC_GUARDED_BY(lock_) = nullptr;

  // Changed with lock_ held; read by any thread.
  AllCaches all_;
  // Written with lock_ held; read by any thread. No other data depends on it, so relaxed suffices.
  std::atomic<bool> total_was_set_{false};
  // As total_was_set_.
  std::atomic<size_t> max_bin_bytes_of_frees_{0};

  // Written with lock_ held; read without it as a hint.
  std::atomic<bool> has_orphans_{false};
  std::atomic<bool> bypass_{false};
  // No other data depends on it, so relaxed suffices.
  std::atomic<bool> inheritance_{false};

  // True after OrphanOthersLater. Written and read in a child that still has one thread, and with
  // lock_ held.
  std::atomic<bool> orphans_due_{false};
  const ThreadSlot* survivor_ = nullptr;
};

// Sums over all thread caches of a registry, and a function that finds whether the stack of one of
// their threads contains an address.
//
// Thread safety: any. Figures are racy while the caches' owners run. Cost: TotalsOf and
// CachedObjects walk over the bins of all caches without a lock (see AllCaches).
// ThreadStacksHold walks over all caches with the registry's lock held and reads a cache line of
// each. Only a free of an invalid pointer calls it.
struct RegistryTotals {
  std::array<size_t, kNumSizeClasses> cached_objects = {};
  size_t cached_bytes = 0;  // of these objects
  size_t array_bytes = 0;
  size_t caches = 0;  // of threads, also of threads in the parent process
};

RegistryTotals TotalsOf(const Registry& registry);

// RegistryTotals::caches alone. Cost: two loads.
inline size_t HeldCaches(const Registry& registry) {
  return registry.all().of_threads.value() + registry.all().orphans.value();
}

// Objects of class `c` in all caches.
size_t CachedObjects(const Registry& registry, SizeClass c);

// True if `address` lies between the slot of a registered thread and the frame in which that thread
// got its cache. The slot must be below `limit`. A thread whose stack is above its slot (the main
// thread) does not count.
bool ThreadStacksHold(Registry& registry, uintptr_t address, uintptr_t limit);

}  // namespace tcmalloc
