// SPDX-License-Identifier: BSD-3-Clause
#include "os/gated_lock.h"

namespace tcmalloc {

void GatedLock::LockGatedSlow(bool taken) {
  for (;;) {
    const bool forking = IsForkingThread();
    if (!taken && forking && IsOfAbsentThread(state_.load(std::memory_order_acquire))) {
      // A handler that ran before ours may have started a thread, which may sleep.
      state_.store(LockedByThisThread() | kWaiters, std::memory_order_relaxed);
      return;
    }
    if (!taken) static_cast<void>(LockSlow());
    if (forking || fork_gate.word.load(std::memory_order_seq_cst) == kGateOpen) return;
    Free();
    WaitAtGate();
    uint32_t expected = kFree;
    taken = state_.compare_exchange_strong(expected, LockedByThisThread(),
                                           std::memory_order_seq_cst, std::memory_order_relaxed);
  }
}

void GatedLock::WaitUntilFree() {
  uint32_t state = state_.load(std::memory_order_acquire);
  // In a forked child, a thread of the parent may have the lock; then the end of the outer hold
  // frees it.
  if (IsOfAbsentThread(state)) return;
  const bool patient = ForkIsPatient();
  if (!patient) {
    if (HeldByThisThread()) return;
    // The mark is set before the wait; a thread that takes the lock later reads the gate. If the
    // mark is still set after the wait, the owner has not freed the lock and may be in its section.
    while (state != kFree &&
           !state_.compare_exchange_weak(state, state | kMissed, std::memory_order_relaxed)) {
    }
  }
  // A patient hold has interrupted no section. If this thread seems to have the lock, another one
  // with the same number has it.
  if (LockInHold(patient)) Free();
}

void GatedLock::FreeInChildSlow() {
  if (IsOfAbsentThread(state_.load(std::memory_order_acquire))) Free();
}

}  // namespace tcmalloc
