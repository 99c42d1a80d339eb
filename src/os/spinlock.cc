// SPDX-License-Identifier: BSD-3-Clause
#include "os/spinlock.h"

#include <algorithm>

#include "base/config.h"
#include "base/tuned.h"
#include "os/clock.h"
#include "os/threads.h"

namespace tcmalloc {
namespace {

// How many times a waiting thread looks at the lock before it sleeps. It takes about as long as the
// longest critical section. Not measured.
constexpr int kSpins = Tuned(200, 0, 10'000);

// The thread between BeginForkHold and EndForkHold writes these: the address of its number, which
// no other living thread shares; the number of nested holds; for each hold a bit that is set if the
// hold is not patient, the innermost hold's is bit 0; the deadline of the innermost hold, and
// whether that hold has missed it; whether the outermost hold, with the nested ones, is incomplete.
constinit std::atomic<const uint32_t*> forking_thread{nullptr};
constinit std::atomic<uint32_t> fork_level{0};
constinit std::atomic<uint32_t> fork_impatience{0};
constinit std::atomic<int64_t> fork_deadline_ms{SpinLock::kNever};
constinit std::atomic<bool> fork_missed_deadline{false};
constinit std::atomic<bool> fork_is_incomplete{false};

// Debug builds: the ranks of the locks that this thread holds, one bit each.
[[maybe_unused]] constinit thread_local uint32_t held_ranks
    __attribute__((tls_model("initial-exec"))) = 0;

// SetObserver writes it (release); each change of a lock reads it (acquire) and so sees the
// functions. Debug builds only.
[[maybe_unused]] constinit std::atomic<const SpinLock::Observer*> lock_observer{nullptr};

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

}  // namespace

bool SpinLock::LockSlow() { return LockUntil(kNever); }

bool SpinLock::LockUntil(int64_t deadline_ms) {
  if constexpr (kDebugBuild) NoteWait();
  uint32_t taken = LockedByThisThread();
  for (int spins = 0;;) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    if ((state & kForkHeld) != 0 && IsForkingThread()) return false;
    if ((state & kLocked) == 0) {
      // After a sleep, other threads may be asleep, too, so their mark is kept.
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
        if (deadline_ms == kNever) {
          FutexWait(&state_, state | kWaiters);
        } else {
          const int64_t left_ms = deadline_ms - CoarseMilliseconds();
          if (left_ms <= 0) return false;
          FutexWaitFor(&state_, state | kWaiters, left_ms);
        }
        taken |= kWaiters;
      }
    }
  }
}

void SpinLock::Wake() { FutexWakeOne(&state_); }

bool SpinLock::IsForkingThread() {
  // The number is not enough, since another thread may have the same one.
  return fork_level.load(std::memory_order_acquire) != 0 &&
         forking_thread.load(std::memory_order_relaxed) == &this_thread_number;
}

bool SpinLock::ForkIsPatient() {
  return (fork_impatience.load(std::memory_order_relaxed) & 1) == 0;
}

// A signal handler may fork at any point of these two. Each store to the level is a release: a
// thread that reads the level sees which thread forks.
void SpinLock::BeginForkHold(bool patient) {
  const uint32_t level = fork_level.load(std::memory_order_relaxed);
  if (level == 0) fork_is_incomplete.store(false, std::memory_order_relaxed);
  forking_thread.store(&this_thread_number, std::memory_order_relaxed);
  fork_level.store(level + 1, std::memory_order_release);
  fork_impatience.store(fork_impatience.load(std::memory_order_relaxed) << 1 | !patient,
                        std::memory_order_relaxed);
  if (!patient) fork_is_incomplete.store(true, std::memory_order_relaxed);
}

// The level comes last. Once it is 0, a hold of a signal handler has the level of this one, and
// frees all locks of this one: another thread may then be between Begin and End.
void SpinLock::EndForkHold() {
  fork_impatience.store(fork_impatience.load(std::memory_order_relaxed) >> 1,
                        std::memory_order_relaxed);
  fork_level.store(fork_level.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

bool SpinLock::ForkHoldIsComplete() { return !fork_is_incomplete.load(std::memory_order_relaxed); }

bool SpinLock::LockForFork(bool patient, int64_t deadline_ms) TC_NO_THREAD_SAFETY_ANALYSIS {
  // Ranks are not checked, since an interrupted section may hold locks of any rank.
  for (int waited_ms = 0;; ++waited_ms) {
    uint32_t expected = kFree;
    if (state_.compare_exchange_strong(expected, LockedByThisThread(), std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      return true;
    }
    if (patient) return LockUntil(deadline_ms);
    if (waited_ms == kForkTimeoutMs) return false;
    WaitMillisecond();
  }
}

bool SpinLock::LockInHold(bool patient) {
  if (!patient) return LockForFork(false);
  if (LockForFork(true, fork_deadline_ms.load(std::memory_order_relaxed))) return true;
  fork_missed_deadline.store(true, std::memory_order_relaxed);
  return false;
}

SpinLock::HoldDeadline::HoldDeadline(int64_t deadline_ms)
    : outer_deadline_ms_(fork_deadline_ms.load(std::memory_order_relaxed)),
      outer_missed_(fork_missed_deadline.load(std::memory_order_relaxed)) {
  fork_deadline_ms.store(deadline_ms, std::memory_order_relaxed);
  fork_missed_deadline.store(false, std::memory_order_relaxed);
}

SpinLock::HoldDeadline::~HoldDeadline() {
  fork_deadline_ms.store(outer_deadline_ms_, std::memory_order_relaxed);
  fork_missed_deadline.store(outer_missed_, std::memory_order_relaxed);
}

bool SpinLock::HoldDeadline::WasMissed() const {
  return fork_missed_deadline.load(std::memory_order_relaxed);
}

uint32_t SpinLock::ForkMark() {
  // The level is 0 when a test holds single locks.
  const uint32_t level = fork_level.load(std::memory_order_relaxed);
  return kForkHeld | (level == 0 ? 1 : level < kMaxLevel ? level : kMaxLevel) << kLevelShift;
}

void SpinLock::MarkHeldForFork() { state_.fetch_or(ForkMark(), std::memory_order_relaxed); }

void SpinLock::HoldForFork() {
  // Most locks are free.
  uint32_t expected = kFree;
  if (state_.compare_exchange_strong(expected, LockedByThisThread() | ForkMark(),
                                     std::memory_order_acquire, std::memory_order_relaxed)) {
    return;
  }
  const bool own = HeldByThisThread();
  if (own && (!InterruptedByThisThread() || !thread_numbers.MayRepeat())) return;
  // A patient hold has interrupted no section: if the thread seems to have the lock in one, another
  // thread with the same number has it, and frees it.
  if (LockInHold(ForkIsPatient())) MarkHeldForFork();
}

bool SpinLock::MarkedByThisThread() const {
  return HeldByThisThread() && !InterruptedByThisThread() &&
         forking_thread.load(std::memory_order_relaxed) == &this_thread_number;
}

void SpinLock::ReleaseAfterForkInParent() {
  const uint32_t level = fork_level.load(std::memory_order_relaxed) + 1;
  uint32_t state = state_.load(std::memory_order_relaxed);
  // A signal handler may fork here, see EndForkHold. Its hold then frees the lock, and another
  // thread may take it, so an exchange would be wrong.
  do {
    if (!IsOfThisThread(state) || (state & kForkHeld) == 0) return;
    if ((state & kLevelMask) >> kLevelShift != (level < kMaxLevel ? level : kMaxLevel)) return;
  } while (!state_.compare_exchange_weak(state, kFree, std::memory_order_release,
                                         std::memory_order_relaxed));
  if ((state & kWaiters) != 0) Wake();
}

bool SpinLock::NoneHeldByThisThread() { return !kDebugBuild || held_ranks == 0; }

SpinLock::RanksSetAside::RanksSetAside() : ranks_(held_ranks) { held_ranks = 0; }

SpinLock::RanksSetAside::~RanksSetAside() { held_ranks |= ranks_; }

void SpinLock::CheckRank() const {
  // Requires: all held locks have lower ranks, and none is a leaf.
  TC_CHECK((held_ranks >> static_cast<uint32_t>(std::min(rank_, kFirstLeaf))) == 0);
}

void SpinLock::SetObserver(const Observer* observer) {
  if constexpr (kDebugBuild) lock_observer.store(observer, std::memory_order_release);
}

void SpinLock::NoteWait() const {
  const Observer* const observer = lock_observer.load(std::memory_order_acquire);
  if (observer != nullptr) observer->waits(*this, rank_);
}

void SpinLock::NoteAcquired(bool tried) const {
  held_ranks |= uint32_t{1} << static_cast<uint32_t>(rank_);
  const Observer* const observer = lock_observer.load(std::memory_order_acquire);
  if (observer != nullptr) observer->acquired(*this, rank_, tried);
}

void SpinLock::NoteReleased() const {
  const Observer* const observer = lock_observer.load(std::memory_order_acquire);
  if (observer != nullptr) observer->frees(*this, rank_);
  held_ranks &= ~(uint32_t{1} << static_cast<uint32_t>(rank_));
}

}  // namespace tcmalloc
