// SPDX-License-Identifier: BSD-3-Clause
#include "os/spinlock.h"

#include <pthread.h>

#include "base/check.h"
#include "base/tuning.h"
#include "os/clock.h"
#include "os/futex.h"

namespace tcmalloc {
namespace {

// The thread between BeginForkHold and EndForkHold; valid while fork_hold is set. Written by that
// thread. Release and acquire, so that a thread that forked earlier does not see its own old
// identity together with another thread's fork_hold.
constinit std::atomic<bool> fork_hold{false};
// The number of nested holds; whether the innermost one is patient; whether the outermost one, with
// those in it, is incomplete. Written by that thread.
constinit std::atomic<uint32_t> fork_level{0};
constinit std::atomic<bool> fork_is_patient{true};
constinit std::atomic<bool> fork_is_incomplete{false};
constinit std::atomic<pthread_t> fork_thread{};

// Debug builds: the ranks of the locks that this thread holds, one bit each.
[[maybe_unused]] constinit thread_local uint32_t held_ranks
    __attribute__((tls_model("initial-exec"))) = 0;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

}  // namespace

bool SpinLock::LockSlow() {
  uint32_t taken = LockedByThisThread();
  for (int spins = 0;;) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    if ((state & kForkHeld) != 0 && IsForkingThread()) return false;
    if ((state & kLocked) == 0) {
      // After a sleep other threads may sleep, too: keep their mark.
      if (state_.compare_exchange_weak(state, state | taken, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    } else if (spins < kTuning.locks.spins) {
      ++spins;
      Pause();
    } else {
      if ((state & kWaiters) != 0 ||
          state_.compare_exchange_weak(state, state | kWaiters, std::memory_order_relaxed)) {
        FutexWait(&state_, state | kWaiters);
        taken |= kWaiters;
      }
    }
  }
}

void SpinLock::Wake() { FutexWakeOne(&state_); }

bool SpinLock::IsForkingThread() {
  return fork_hold.load(std::memory_order_acquire) &&
         pthread_equal(fork_thread.load(std::memory_order_relaxed), pthread_self());
}

void SpinLock::BeginForkHold(bool patient) {
  const uint32_t level = fork_level.load(std::memory_order_relaxed);
  if (level == 0) fork_is_incomplete.store(false, std::memory_order_relaxed);
  fork_level.store(level + 1, std::memory_order_relaxed);
  fork_is_patient.store(patient, std::memory_order_relaxed);
  if (!patient) fork_is_incomplete.store(true, std::memory_order_relaxed);
  fork_thread.store(pthread_self(), std::memory_order_relaxed);
  fork_hold.store(true, std::memory_order_release);
}

void SpinLock::EndForkHold() {
  const uint32_t level = fork_level.load(std::memory_order_relaxed) - 1;
  fork_level.store(level, std::memory_order_relaxed);
  fork_is_patient.store(true, std::memory_order_relaxed);
  if (level == 0) fork_hold.store(false, std::memory_order_relaxed);
}

bool SpinLock::ForkHoldIsComplete() { return !fork_is_incomplete.load(std::memory_order_relaxed); }

bool SpinLock::LockForFork(bool patient) TC_NO_THREAD_SAFETY_ANALYSIS {
  // Does not check ranks: an interrupted section may hold locks of any rank.
  for (int waited_ms = 0;; ++waited_ms) {
    uint32_t expected = kFree;
    if (state_.compare_exchange_strong(expected, LockedByThisThread(), std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      return true;
    }
    if (patient) return LockSlow();
    if (waited_ms == kTuning.locks.fork_patience_ms) return false;
    WaitMillisecond();
  }
}

void SpinLock::MarkHeldForFork() {
  // 0 where a test holds single locks.
  const uint32_t level = fork_level.load(std::memory_order_relaxed);
  const uint32_t mark = level == 0 ? 1 : level < kMaxLevel ? level : kMaxLevel;
  state_.fetch_or(kForkHeld | mark << kLevelShift, std::memory_order_relaxed);
}

void SpinLock::HoldForFork() {
  if (HeldByThisThread()) return;
  if (LockForFork(fork_is_patient.load(std::memory_order_relaxed))) MarkHeldForFork();
}

void SpinLock::ReleaseAfterForkInParent() {
  const uint32_t state = state_.load(std::memory_order_relaxed);
  const uint32_t level = fork_level.load(std::memory_order_relaxed) + 1;
  if (!HeldByThisThread() || (state & kForkHeld) == 0) return;
  if ((state & kLevelMask) >> kLevelShift != (level < kMaxLevel ? level : kMaxLevel)) return;
  if (state_.exchange(kFree, std::memory_order_release) & kWaiters) Wake();
}

bool SpinLock::NoneHeldByThisThread() { return !kDebugBuild || held_ranks == 0; }

SpinLock::RanksSetAside::RanksSetAside() : ranks_(held_ranks) { held_ranks = 0; }

SpinLock::RanksSetAside::~RanksSetAside() { held_ranks |= ranks_; }

void SpinLock::CheckRank() const {
  // Requires: all held locks have lower ranks.
  TC_CHECK((held_ranks >> static_cast<uint32_t>(rank_)) == 0);
}

void SpinLock::NoteAcquired() const { held_ranks |= uint32_t{1} << static_cast<uint32_t>(rank_); }

void SpinLock::NoteReleased() const {
  held_ranks &= ~(uint32_t{1} << static_cast<uint32_t>(rank_));
}

}  // namespace tcmalloc
