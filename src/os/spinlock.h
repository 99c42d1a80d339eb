// SPDX-License-Identifier: BSD-3-Clause
// SpinLock: a four-byte lock that spins briefly and then sleeps in the kernel (futex). Not
// recursive; constant-initialised. Zero-filled memory is not a valid lock, because the lock
// contains its rank. A held lock contains the number of its owner, which only fork needs.
//
// Around fork. HoldForFork takes the lock and marks it. While a lock is marked, Lock and Unlock
// have no effect in the thread that called BeginForkHold, because handlers of other libraries that
// run between our fork handlers may allocate. The guarded data is consistent then, since the mark
// was set with the lock held.
//
// A signal handler may fork while its thread holds locks, because it interrupted a critical section
// or another fork. A hold leaves a lock of its own thread as it is, held even after the hold ends,
// in parent and child: the section continues when the handler returns. So each mark contains the
// level of nested holds at which it was set, and a hold releases only the locks that it took. A
// hold by a thread that interrupted its own section waits for other threads only for a limited time
// (LockForFork), since they may wait for that section. A lock that it does not get, or an
// interrupted section, makes the hold incomplete. Other holds may have a deadline (HoldDeadline):
// one that does not get a lock by then is given up.
//
// Synchronization: a successful Lock or TryLock happens after the Unlock that made it possible
// (acquire on the exchange that takes the lock, release on the one that frees it). Cost: one atomic
// exchange to lock, one to unlock.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "base/config.h"
#include "os/threads.h"

namespace tcmalloc {

// The order of locks: a thread that holds a lock may take only locks of higher rank (further down).
// Debug builds check every acquisition. Two locks of one rank are never held together, except all
// of them around fork.
//
// So fork does not deadlock. It takes the locks in the order of the ranks, and those of one rank in
// any order. If it waits for a lock, the owner waits at most for a lock of higher rank, which fork
// does not have yet; so does the owner of that one. The locks from kFirstLeaf on are taken last, in
// any order: their owners take no other lock. Locks of the C library and of the program have no
// rank: process/fork.cc has the argument for those.
enum class LockRank : uint8_t {
  kInit,          // building the heap, once
  kRegistry,      // the list of thread caches, their lifetimes and limits
  kShards,        // the set of shards, and of size classes in each
  kShard,         // the spans of one size class in one shard, or its kept spans
  kHoles,         // threads that are releasing free pages inside used spans
  kPageHeap,      // free spans, span records
  kMetadata,      // the metadata arena
  kBreak,         // the end of the data segment, during sbrk
  kMappedRanges,  // the list of mapped anonymous memory
  kFileMemory,    // memory that is not anonymous: the mapped part of a file, the list of ranges
  kCallbacks,     // the program's functions: for large allocations, for memory pressure
  kSamples,       // sampled allocations
  kGuarded,       // the slots of guarded samples that are in use
  kProfile,       // one part of the heap profiler's table of objects in use
  kFreeQueue,     // freed objects of the debug libraries
  kLeaks,         // objects and memory that the program registered with the leak checker
  kCount,
};

inline constexpr LockRank kFirstLeaf = LockRank::kCallbacks;

// How long fork waits for each lock that another thread holds, in case that thread waits for a
// critical section that the forking thread interrupted. This is far longer than a critical section
// takes, and short enough that a user accepts the wait even for all locks together.
inline constexpr int kForkTimeoutMs = 50;

class TC_CAPABILITY("mutex") SpinLock {
 public:
  explicit constexpr SpinLock(LockRank rank) : rank_(rank) {}
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void Lock() TC_ACQUIRE() {
    if constexpr (kDebugBuild) CheckRank();
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, LockedByThisThread(), std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      if (!LockSlow()) return;
    }
    if constexpr (kDebugBuild) NoteAcquired();
  }

  // Does not wait: false if another thread has the lock.
  [[nodiscard]] bool TryLock() TC_TRY_ACQUIRE(true) {
    uint32_t expected = state_.load(std::memory_order_relaxed);
    // A failed exchange would take the cache line from the thread that has the lock.
    if (expected != kFree) return (expected & kForkHeld) != 0 && IsForkingThread();
    if (!state_.compare_exchange_strong(expected, LockedByThisThread(), std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      return (expected & kForkHeld) != 0 && IsForkingThread();
    }
    if constexpr (kDebugBuild) NoteAcquired(true);
    return true;
  }

  void Unlock() TC_RELEASE() {
    // Only the forking thread gets here while the mark is set; while any other thread holds the
    // lock, the mark is never set. So a relaxed load is enough.
    if (state_.load(std::memory_order_relaxed) & kForkHeld) return;
    if constexpr (kDebugBuild) NoteReleased();
    if (state_.exchange(kFree, std::memory_order_release) & kWaiters) Wake();
  }

  // Makes the calling thread the one that passes through marked locks. Requires: no other thread is
  // between Begin and End, which the first lock of a hold ensures. `patient` is false for a thread
  // that interrupted a critical section of its own. Begin and End nest.
  static void BeginForkHold(bool patient = true);
  static void EndForkHold();
  // True if the calling thread is between Begin and End.
  static bool InForkHold() { return IsForkingThread(); }
  // Called before fork: takes and marks the lock, unless the calling thread already has it in an
  // interrupted section or in a hold.
  void HoldForFork();
  // No deadline. Deadlines are times of CoarseMilliseconds.
  static constexpr int64_t kNever = INT64_MAX;
  // The two halves of HoldForFork, for the first lock of a hold: BeginForkHold is called between
  // them. LockForFork returns false when it cannot get the lock; a patient caller waits for it
  // until the deadline, others for kForkTimeoutMs.
  [[nodiscard]] bool LockForFork(bool patient, int64_t deadline_ms = kNever);
  void MarkHeldForFork();
  // While it lives, HoldForFork waits no longer than until the deadline if the hold is patient.
  // Used by the thread between Begin and End, and by its signal handlers that interrupt it there.
  class HoldDeadline {
   public:
    explicit HoldDeadline(int64_t deadline_ms);
    ~HoldDeadline();
    HoldDeadline(const HoldDeadline&) = delete;
    HoldDeadline& operator=(const HoldDeadline&) = delete;
    // True if a lock was not free by the deadline: the hold must be given up.
    bool WasMissed() const;

   private:
    const int64_t outer_deadline_ms_;
    const bool outer_missed_;
  };
  // True if the hold has all its locks, and no data that they guard is in the middle of a change.
  // Requires: between Begin and End.
  static bool ForkHoldIsComplete();

  // True if the calling thread has the lock, in a critical section or in a hold.
  bool HeldByThisThread() const { return IsOfThisThread(state_.load(std::memory_order_relaxed)); }
  // True if the calling thread has the lock in a critical section, which a signal handler, the
  // caller, has interrupted.
  bool InterruptedByThisThread() const {
    return HeldByThisThread() && (state_.load(std::memory_order_relaxed) & kForkHeld) == 0;
  }
  // True if the calling thread has marked the lock in the present hold.
  bool MarkedByThisThread() const;
  // True if the calling thread forks and passes through this marked lock.
  bool HeldForForkByThisThread() const {
    return (state_.load(std::memory_order_relaxed) & kForkHeld) != 0 && IsForkingThread();
  }
  // Called in the parent after EndForkHold: if the hold that ended marked the lock, frees it and
  // wakes a waiter.
  void ReleaseAfterForkInParent();
  // Called in the child. The threads that waited do not exist there, but a handler that ran before
  // ours may have started one that waits now.
  void ResetAfterForkInChild() { ReleaseAfterForkInParent(); }

  // Debug builds call these functions of a test when a thread begins to wait for a held lock, has
  // acquired a lock, or is about to free one. The functions may not take a SpinLock.
  struct Observer {
    void (*waits)(const SpinLock& lock, LockRank rank);
    // `tried` is true after a TryLock.
    void (*acquired)(const SpinLock& lock, LockRank rank, bool tried);
    void (*frees)(const SpinLock& lock, LockRank rank);
  };
  // Sets the observer of all locks; null for none. Has no effect in release builds.
  static void SetObserver(const Observer* observer);

  // True if the calling thread holds no SpinLock. Always true in release builds, which do not track
  // that.
  static bool NoneHeldByThisThread();

  // While it lives, the locks that the calling thread holds do not count for the order of ranks.
  // For code that runs in a forked child after a signal handler forked: the interrupted section may
  // hold a lock of any rank, and no other thread exists that could take the locks in another order.
  class RanksSetAside {
   public:
    RanksSetAside();
    ~RanksSetAside();
    RanksSetAside(const RanksSetAside&) = delete;
    RanksSetAside& operator=(const RanksSetAside&) = delete;

   private:
    const uint32_t ranks_;
  };

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kLocked = 1;
  static constexpr uint32_t kWaiters = 2;
  static constexpr uint32_t kForkHeld = 4;
  // If kForkHeld is set: the level of the hold, counted from 1.
  static constexpr int kLevelShift = 3;
  static constexpr uint32_t kMaxLevel = 7;
  static constexpr uint32_t kLevelMask = kMaxLevel << kLevelShift;
  // The number of the owner, in the upper bits.
  static constexpr int kOwnerShift = 6;
  static_assert(kOwnerShift + kThreadNumberBits == 32);

  static uint32_t LockedByThisThread() { return ThisThreadNumber() << kOwnerShift | kLocked; }
  // True if a lock in this state is held by the calling thread.
  static bool IsOfThisThread(uint32_t state) {
    return (state & ~(kWaiters | kForkHeld | kLevelMask)) == LockedByThisThread();
  }

  // Waits for the lock. False when the calling thread holds the lock for fork: then it acquires no
  // lock.
  TC_SLOW_PATH bool LockSlow();
  // As LockSlow. Also false if the lock was not free by the deadline.
  TC_SLOW_PATH bool LockUntil(int64_t deadline_ms);
  TC_SLOW_PATH void Wake();
  // True if the calling thread is between BeginForkHold and EndForkHold.
  static bool IsForkingThread();
  // The mark of a lock that the present hold takes.
  static uint32_t ForkMark();
  // True if the innermost hold is patient.
  static bool ForkIsPatient();
  // LockForFork for all locks but the first of a hold: with the hold's deadline.
  [[nodiscard]] bool LockInHold(bool patient);
  void CheckRank() const;
  void NoteWait() const;
  void NoteAcquired(bool tried = false) const;
  void NoteReleased() const;

  // Written by every thread that locks or unlocks.
  std::atomic<uint32_t> state_{kFree};
  // Constant after construction.
  const LockRank rank_;
};

class TC_SCOPED_CAPABILITY SpinLockHolder {
 public:
  explicit SpinLockHolder(SpinLock& lock) TC_ACQUIRE(lock) : lock_(lock) { lock_.Lock(); }
  ~SpinLockHolder() TC_RELEASE() { lock_.Unlock(); }
  SpinLockHolder(const SpinLockHolder&) = delete;
  SpinLockHolder& operator=(const SpinLockHolder&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace tcmalloc
