// SPDX-License-Identifier: BSD-3-Clause
// SpinLock: a lock of four bytes that spins for a moment and then sleeps in the kernel (futex). Not
// recursive, constant-initialised, zero-filled memory is not a valid lock because the rank is in
// it. A held lock names its owner, for the sake of fork alone.
//
// Around fork: HoldForFork is Lock plus a mark. While a lock is so held, the thread that called
// BeginForkHold passes through Lock and Unlock of it without effect: handlers of other libraries
// that run between our fork handlers may allocate. The state of the protected data is consistent
// then, since the mark was set with the lock held.
//
// A signal handler may fork while its thread holds locks: it interrupted a section, or another
// fork. A lock of its own thread's is left as it is, and stays held when the hold ends, in parent
// and child: the section goes on when the handler returns. So each mark says at which level of
// nested holds it was set, and a hold releases what it has taken itself. The hold of a thread that
// interrupted its own section does not wait for others without end (LockForFork): they may wait for
// that section. What it does not get, and what was interrupted, makes the hold incomplete.
//
// Synchronization: a successful Lock or TryLock happens after the Unlock that made it possible
// (acquire on the exchange that takes the lock, release on the one that frees it). Cost: one atomic
// exchange to lock, one to unlock.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "base/config.h"
#include "os/lock_rank.h"
#include "os/thread_number.h"

namespace tcmalloc {

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

  [[nodiscard]] bool TryLock() TC_TRY_ACQUIRE(true) {
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, LockedByThisThread(), std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      return (expected & kForkHeld) != 0 && ForksNow();
    }
    if constexpr (kDebugBuild) NoteAcquired();
    return true;
  }

  void Unlock() TC_RELEASE() {
    // Only the forking thread itself gets here while the mark is set; for everyone else it was
    // never set while they held the lock. So this relaxed read needs no order.
    if (state_.load(std::memory_order_relaxed) & kForkHeld) return;
    if constexpr (kDebugBuild) NoteReleased();
    if (state_.exchange(kFree, std::memory_order_release) & kWaiters) Wake();
  }

  // The calling thread becomes the one that passes through held locks. Requires: no other thread is
  // between Begin and End, which the first lock that a hold takes sees to. `patient` is false for a
  // thread that has interrupted a section of its own. Begin and End nest.
  static void BeginForkHold(bool patient = true);
  static void EndForkHold();
  // Before fork: takes the lock and marks it, unless it is the calling thread's.
  void HoldForFork();
  // The two halves of it, for the first lock of a hold: between them comes BeginForkHold. False
  // when the lock cannot be had; who is patient gets it.
  [[nodiscard]] bool LockForFork(bool patient);
  void MarkHeldForFork();
  // The hold has every lock that it should have, and nothing that they guard is in the middle of a
  // change. Requires: between Begin and End.
  static bool ForkHoldIsComplete();

  // The calling thread has locked it, in whatever way.
  bool HeldByThisThread() const {
    return (state_.load(std::memory_order_relaxed) & ~(kWaiters | kForkHeld | kLevelMask)) ==
           LockedByThisThread();
  }
  // The same by a section, which a signal handler has interrupted when this is asked for.
  bool InterruptedByThisThread() const {
    return HeldByThisThread() && (state_.load(std::memory_order_relaxed) & kForkHeld) == 0;
  }
  // The calling thread, which forks, passes through this lock.
  bool HeldForForkByThisThread() const {
    return (state_.load(std::memory_order_relaxed) & kForkHeld) != 0 && ForksNow();
  }
  // After EndForkHold, in the parent: frees it and wakes who waits, if the hold that ended has
  // marked it.
  void ReleaseAfterForkInParent();
  // In the child: the same. The threads that waited are not there, but a handler that ran before
  // ours may have started one that waits now.
  void ResetAfterForkInChild() { ReleaseAfterForkInParent(); }

  // True when the calling thread holds no SpinLock. Always true in release builds, which do not
  // keep track.
  static bool NoneHeldByThisThread();

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kLocked = 1;
  static constexpr uint32_t kWaiters = 2;
  static constexpr uint32_t kForkHeld = 4;
  // Of kForkHeld: the level of the hold, counted from 1.
  static constexpr int kLevelShift = 3;
  static constexpr uint32_t kMaxLevel = 7;
  static constexpr uint32_t kLevelMask = kMaxLevel << kLevelShift;
  // The owner's number, in the bits above.
  static constexpr int kOwnerShift = 6;
  static_assert(kOwnerShift + kThreadNumberBits == 32);

  static uint32_t LockedByThisThread() { return ThisThreadNumber() << kOwnerShift | kLocked; }

  // Waits for the lock. False when the lock is held for fork by this very thread: then nothing was
  // acquired.
  TC_SLOW_PATH bool LockSlow();
  TC_SLOW_PATH void Wake();
  // The calling thread is between BeginForkHold and EndForkHold.
  static bool ForksNow();
  void CheckRank() const;
  void NoteAcquired() const;
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
