// SPDX-License-Identifier: BSD-3-Clause
// GatedLock: a SpinLock that a hold for fork does not take. There are thousands of them, each on
// its own cache line: to take and release all would dirty their memory in the parent and in the
// child.
//
// The gate is one word of the process, closed from BeginForkHold to EndForkHold. A thread that has
// taken a gated lock while the gate is closed frees it and waits at the gate. The forking thread
// passes the gate: it takes and frees the lock as usual. So a hold closes the gate and then only
// reads each lock until it is free.
//
// Why that suffices. The locker writes the lock and then reads the gate; the forking thread writes
// the gate and then reads the lock. All four are sequentially consistent, so at least one of the
// two sees what the other wrote: the locker waits at the gate, or the forking thread waits for the
// locker's Unlock. (On x86 that costs nothing: the exchange is a full barrier. On aarch64 the
// locker's exchange has release semantics, too.) tests/model/fork_gate.pml is a model of this
// protocol.
//
// A locker that found the gate closed may be at any instruction at the moment of the fork. So the
// child may find a lock taken by a thread of the parent that was not in its section. The forking
// thread ignores such a lock, and the end of the hold frees it (FreeInChild). It must not free a
// lock of a thread of the child, which a fork handler has started: that thread enters its section
// once the gate is open.
//
// A hold that waits only for a limited time (see SpinLock) marks each lock that it finds taken, and
// the owner's Unlock removes the mark. A lock that still has the mark in the child stays taken,
// since its data may be half changed. Other locks are freed there even if the hold is incomplete.
//
// Requires: a thread that takes a gated lock holds no other lock. Otherwise it could wait at the
// gate while it holds a lock for which the forking thread waits.
//
// Cost. Lock costs a load and a branch more than SpinLock's; Unlock costs a load and a branch less.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "base/config.h"
#include "os/spinlock.h"

namespace tcmalloc {

class TC_CAPABILITY("mutex") GatedLock : private SpinLock {
 public:
  explicit constexpr GatedLock(LockRank rank) : SpinLock(rank) {}

  void Lock() TC_ACQUIRE() TC_NO_THREAD_SAFETY_ANALYSIS {
    if constexpr (kDebugBuild) CheckNoneHeld();
    uint32_t expected = kFree;
    const bool taken = state_.compare_exchange_strong(
        expected, LockedByThisThread(), std::memory_order_seq_cst, std::memory_order_relaxed);
    if (__builtin_expect(!taken || fork_gate.word.load(std::memory_order_seq_cst) != kGateOpen,
                         false)) {
      LockGatedSlow(taken);
    }
    if constexpr (kDebugBuild) NoteAcquired();
  }
  // As Lock, but does not wait: takes the lock unless another thread has it, or the gate is closed
  // to this thread. In the argument above, a TryLock that fails at the gate counts as a Lock that
  // frees the lock.
  [[nodiscard]] bool TryLock() TC_TRY_ACQUIRE(true) TC_NO_THREAD_SAFETY_ANALYSIS {
    if constexpr (kDebugBuild) CheckNoneHeld();
    // The load comes first, since a failed exchange would take the cache line from the thread that
    // has the lock.
    if (state_.load(std::memory_order_relaxed) != kFree) return false;
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, LockedByThisThread(), std::memory_order_seq_cst,
                                        std::memory_order_relaxed)) {
      return false;
    }
    if (__builtin_expect(fork_gate.word.load(std::memory_order_seq_cst) != kGateOpen, false) &&
        !IsForkingThread()) {
      Free();
      return false;
    }
    if constexpr (kDebugBuild) NoteAcquired(true);
    return true;
  }
  void Unlock() TC_RELEASE() TC_NO_THREAD_SAFETY_ANALYSIS {
    if constexpr (kDebugBuild) NoteReleased();
    Free();
  }

  using SpinLock::HeldByThisThread;
  // True if the calling thread has the lock, and a signal handler, the caller, has interrupted its
  // section.
  bool InterruptedByThisThread() const { return HeldByThisThread(); }

  // Called before fork, with the gate closed: waits until no other thread has the lock.
  void HoldForFork() TC_NO_THREAD_SAFETY_ANALYSIS {
    if (state_.load(std::memory_order_seq_cst) != kFree) WaitUntilFree();
  }
  bool HeldForForkByThisThread() const { return IsForkingThread(); }
  // These do nothing: the gate alone holds the lock, and releases it when it opens.
  void ReleaseAfterForkInParent() {}
  void ResetAfterForkInChild() {}
  // Called in the child, before the gate opens: frees the lock if a thread of the parent has it and
  // was in no critical section.
  void FreeInChild() {
    if (state_.load(std::memory_order_relaxed) != kFree) FreeInChildSlow();
  }

 private:
  TC_SLOW_PATH void LockGatedSlow(bool taken);
  TC_SLOW_PATH void WaitUntilFree();
  TC_SLOW_PATH void FreeInChildSlow();
  void Free() {
    if (state_.exchange(kFree, std::memory_order_release) & kWaiters) Wake();
  }
};

static_assert(sizeof(GatedLock) == sizeof(SpinLock));

}  // namespace tcmalloc
