// SPDX-License-Identifier: BSD-3-Clause
// The helper thread: writes reports at intervals and on signals, even if no thread of the process
// allocates. It exists only if a setting asks for such a report, and starts when the library is
// loaded, never inside an allocation.
//
// Signals. A handler is installed for a signal only if the process neither handles nor ignores it;
// a handler that the program installs later replaces it. It sets a bit and wakes the helper thread.
// For a signal that asks the process to end (AsksToEnd) the helper calls its tasks, then passes the
// signal on: the process ends as it would without the library. Meanwhile the thread that received
// the signal waits, so that main does not return first. It waits for at most kMaxSignalWaitMs: it
// may hold a lock that a task needs.
//
// Fork. A child gets a helper thread of its own in the handler around fork; its intervals start
// anew. A child may have no helper thread, because clone created it or no thread could be started.
// In such a child signals that ask the process to end have their default effect, and others have
// none. exec ends the thread. It is a lasting thread (process/background_thread.h): it ends with
// the program's last thread.
//
// The thread blocks all signals, sleeps on a futex, and has no descriptors that a program could
// close. It never allocates. Thread safety: see each function.
#pragma once

#include <cstdint>

namespace tcmalloc {

// How long a thread waits, at exit and for its own heap profile, for a file that another thread is
// writing. That thread may hang, or this thread's signal handler may have interrupted it.
inline constexpr int kMaxWriteWaitMs = 10'000;

struct HelperTask {
  // The time between two calls; 0 if no interval causes calls.
  int64_t interval_ms = 0;
  // The signals for which the task is called: bit n - 1 for signal n.
  uint64_t signals = 0;
  // The helper thread calls it without locks; `signal` is 0 if an interval has passed. errno may
  // change.
  void (*run)(int signal) = nullptr;
};

constexpr uint64_t SignalBit(int signal) { return uint64_t{1} << (signal - 1); }

// Starts the thread unless it runs. The task lives as long as the process and does not change. Each
// of its signals needs a call of HandleSignalInHelper. False when the thread cannot be started, or
// there are too many tasks. Call it only when the library is loaded. It allocates.
[[nodiscard]] bool AddHelperTask(const HelperTask* task);

// False when there is no such signal, or the process handles or ignores it. Call it only when the
// library is loaded.
[[nodiscard]] bool HandleSignalInHelper(int signal);

// Called when the process exits. If the helper is serving a signal that ends the process, waits
// until the process ends, at most kMaxWriteWaitMs. Any thread but the helper may call it.
void AwaitEndBySignal();

// Called in a forked child, when all locks are free. Allocates if the parent had a helper thread.
void RestartHelperInChild();

}  // namespace tcmalloc
