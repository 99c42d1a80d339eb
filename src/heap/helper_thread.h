// SPDX-License-Identifier: BSD-3-Clause
// The helper thread: writes reports at intervals and on signals, also in a process where no thread
// allocates. It exists only where a setting asks for such a report, and starts when the library is
// loaded, never inside an allocation.
//
// Signals. A handler is installed for a signal only if the process neither handles nor ignores it;
// a handler that the program installs later replaces it. It sets a bit and wakes the helper thread.
// After a signal that asks the process to end (AsksToEnd) the helper calls its tasks, then passes
// the signal on, so that the process ends as it would have ended without the library. The thread
// that has received the signal waits meanwhile, so that main does not return first, but for
// Tuning::Reports::max_signal_wait_ms only: it may hold a lock that a task needs.
//
// Fork. A child gets a helper thread of its own in the handler around fork, with all intervals
// beginning anew. In a child that has none (made by clone, or no thread could be started) these
// signals do what they do by default, and others do nothing. exec ends the thread.
//
// The thread has all signals blocked, sleeps on a word in memory, and has no descriptors that a
// program could close. Never allocates itself. Thread safety: as said at each function.
#pragma once

#include <cstdint>

namespace tcmalloc {

struct HelperTask {
  // Between two calls; 0: no calls by time.
  int64_t interval_ms = 0;
  // Signals to be called for: bit n - 1 for signal n.
  uint64_t signals = 0;
  // Called by the helper thread, without locks; 0: an interval has passed. errno may change.
  void (*run)(int signal) = nullptr;
};

constexpr uint64_t SignalBit(int signal) { return uint64_t{1} << (signal - 1); }

// Starts the thread unless it runs. The task lives as long as the process and does not change. Its
// signals need a call of HandleSignalInHelper each. False when no thread could be started, or
// there are too many tasks. When the library is loaded only; allocates.
[[nodiscard]] bool AddHelperTask(const HelperTask* task);

// False when there is no such signal, or the process handles or ignores it. When the library is
// loaded only.
[[nodiscard]] bool HandleSignalInHelper(int signal);

// The process exits: where a signal that ends it is being served, waits for that end, at most some
// seconds. By any thread but the helper.
void AwaitEndBySignal();

// In a forked child, when all locks are free. Allocates where there is a helper.
void RestartHelperInChild();

}  // namespace tcmalloc
