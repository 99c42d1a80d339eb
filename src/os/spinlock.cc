// SPDX-License-Identifier: BSD-3-Clause
#include "os/spinlock.h"

#include <pthread.h>

#include "base/check.h"
#include "os/futex.h"

namespace tcmalloc {
namespace {

// The thread between BeginForkHold and EndForkHold; meaningful while fork_hold is set. Written by
// that thread. A thread that forked earlier must not find its own old identity behind another
// thread's fork_hold: hence release and acquire.
constinit std::atomic<bool> fork_hold{false};
constinit std::atomic<pthread_t> fork_thread{};

// Debug builds: the ranks of the locks that this thread holds, one bit each.
constinit thread_local uint32_t held_ranks __attribute__((tls_model("initial-exec"))) = 0;

// How often to look before going to sleep: about as long as the longest stretch under a lock.
constexpr int kSpins = 200;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

}  // namespace

bool SpinLock::LockSlow() {
  uint32_t taken = kLocked;
  for (int spins = 0;;) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    if ((state & kForkHeld) != 0 && ForksNow()) return false;
    if ((state & kLocked) == 0) {
      // After a sleep others may sleep too: keep their mark.
      if (state_.compare_exchange_weak(state, state | taken, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    } else if (spins < kSpins) {
      ++spins;
      Pause();
    } else {
      if ((state & kWaiters) != 0 ||
          state_.compare_exchange_weak(state, state | kWaiters, std::memory_order_relaxed)) {
        FutexWait(&state_, state | kWaiters);
        taken = kLocked | kWaiters;
      }
    }
  }
}

void SpinLock::Wake() { FutexWakeOne(&state_); }

bool SpinLock::ForksNow() {
  return fork_hold.load(std::memory_order_acquire) &&
         pthread_equal(fork_thread.load(std::memory_order_relaxed), pthread_self());
}

void SpinLock::BeginForkHold() {
  fork_thread.store(pthread_self(), std::memory_order_relaxed);
  fork_hold.store(true, std::memory_order_release);
}

void SpinLock::EndForkHold() { fork_hold.store(false, std::memory_order_relaxed); }

void SpinLock::HoldForFork() TC_NO_THREAD_SAFETY_ANALYSIS {
  Lock();
  // Bookkeeping of ranks would see all locks of a rank at once.
  if constexpr (kDebugBuild) NoteReleased();
  state_.fetch_or(kForkHeld, std::memory_order_relaxed);
}

void SpinLock::ReleaseAfterForkInParent() {
  if (state_.exchange(kFree, std::memory_order_release) & kWaiters) Wake();
}

bool SpinLock::NoneHeldByThisThread() { return held_ranks == 0; }

void SpinLock::CheckRank() const {
  // Held locks must all be of lower rank.
  TC_CHECK((held_ranks >> static_cast<uint32_t>(rank_)) == 0);
}

void SpinLock::NoteAcquired() const { held_ranks |= uint32_t{1} << static_cast<uint32_t>(rank_); }

void SpinLock::NoteReleased() const {
  held_ranks &= ~(uint32_t{1} << static_cast<uint32_t>(rank_));
}

}  // namespace tcmalloc
