// SPDX-License-Identifier: BSD-3-Clause
#include "process/helper_thread.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "base/text.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/threads.h"
#include "process/background_thread.h"

namespace tcmalloc {
namespace {

// How long a thread waits for the reports on a fatal signal.
constexpr int64_t kMaxSignalWaitMs = 1000;

constexpr size_t kMaxTasks = 8;

// Tasks are added when the library is loaded (release) and never removed; the helper reads them
// (acquire).
constinit std::array<std::atomic<const HelperTask*>, kMaxTasks> tasks{};

// The process whose helper thread runs; 0 if there is none. The thread that starts the helper
// writes it before the helper runs, and the helper when it ends; in a forked child its only thread
// writes it. Signal handlers read it (relaxed, since a process sees its own store).
constinit std::atomic<uint64_t> process_of_thread{0};

// Received signals, a bit each (SignalBit). Handlers set the bits, the helper clears them. They are
// relaxed, since no other data depends on a bit; `wakeups` orders them.
constinit std::atomic<uint64_t> came{0};
// The futex of the helper. It is incremented (release) after a bit or a task is stored, so a helper
// that loads the new value (acquire) sees the bit or the task.
constinit std::atomic<uint32_t> wakeups{0};
// Whether a signal that ends the process was received (the handler stores kReceived), and the
// helper has called the tasks for it (the helper stores kServed). A futex. Release and acquire make
// the tasks' writes visible.
enum EndSignal : uint32_t { kNone, kReceived, kServed };
constinit std::atomic<uint32_t> end_signal{kNone};

void Wake() {
  wakeups.fetch_add(1, std::memory_order_release);
  FutexWakeOne(&wakeups);
}

void OnSignal(int signal) {
  if (process_of_thread.load(std::memory_order_relaxed) != ProcessId()) {
    if (AsksToEnd(signal)) PassSignalOn(signal, &OnSignal);
    return;
  }
  came.fetch_or(SignalBit(signal), std::memory_order_relaxed);
  if (!AsksToEnd(signal)) return Wake();
  uint32_t none = kNone;
  end_signal.compare_exchange_strong(none, kReceived, std::memory_order_relaxed);
  Wake();
  const int64_t until_ms = CoarseMilliseconds() + kMaxSignalWaitMs;
  while (end_signal.load(std::memory_order_acquire) == kReceived) {
    const int64_t left_ms = until_ms - CoarseMilliseconds();
    if (left_ms <= 0) return;
    FutexWaitFor(&end_signal, kReceived, left_ms);
  }
}

void Serve(int signal) {
  for (const std::atomic<const HelperTask*>& place : tasks) {
    const HelperTask* const task = place.load(std::memory_order_acquire);
    if (task != nullptr && (task->signals & SignalBit(signal)) != 0) task->run(signal);
  }
  if (!AsksToEnd(signal)) return;
  PassSignalOn(signal, &OnSignal);
  end_signal.store(kServed, std::memory_order_release);
  FutexWakeAll(&end_signal);
}

void ServeSignals() {
  uint64_t signals = came.exchange(0, std::memory_order_relaxed);
  for (int signal = 1; signals != 0; ++signal, signals >>= 1) {
    if ((signals & 1) != 0) Serve(signal);
  }
}

// The time at which each task is due next. Only the helper uses it.
class Schedule {
 public:
  // Runs the tasks that are due. Returns the milliseconds until the next task is due; negative if
  // no task will be.
  int64_t RunDue() {
    int64_t next_ms = kNever;
    for (size_t i = 0; i < kMaxTasks; ++i) {
      const HelperTask* const task = tasks[i].load(std::memory_order_acquire);
      if (task == nullptr || task->interval_ms == 0) continue;
      int64_t now_ms = CoarseMilliseconds();
      if (due_ms_[i] == 0) due_ms_[i] = now_ms + task->interval_ms;
      if (now_ms >= due_ms_[i]) {
        task->run(0);
        // Intervals that were missed, for example while the machine slept, are skipped.
        const int64_t after_ms = CoarseMilliseconds();
        due_ms_[i] = std::max(due_ms_[i] + task->interval_ms, after_ms + 1);
      }
      next_ms = std::min(next_ms, due_ms_[i]);
    }
    if (next_ms == kNever) return -1;
    return std::max<int64_t>(next_ms - CoarseMilliseconds(), 0);
  }

 private:
  static constexpr int64_t kNever = INT64_MAX;

  std::array<int64_t, kMaxTasks> due_ms_{};  // CoarseMilliseconds; 0: not known yet
};

void* RunHelper(void*) {
  BeginLastingThread();
  Schedule schedule;
  for (;;) {
    const uint32_t seen = wakeups.load(std::memory_order_acquire);
    ServeSignals();
    if (program_has_ended.load(std::memory_order_seq_cst) != 0) break;
    const int64_t sleep_ms = schedule.RunDue();
    if (sleep_ms < 0) {
      FutexWait(&wakeups, seen);
    } else if (sleep_ms > 0) {
      FutexWaitFor(&wakeups, seen, sleep_ms);
    }
  }
  process_of_thread.store(0, std::memory_order_relaxed);
  return nullptr;
}

constinit LastingThread helper = {.run = &RunHelper, .name = "tcmalloc-report", .wake = &Wake};

bool Start() {
  process_of_thread.store(ProcessId(), std::memory_order_relaxed);
  if (StartLastingThread(&helper)) return true;
  process_of_thread.store(0, std::memory_order_relaxed);
  return false;
}

}  // namespace

bool AddHelperTask(const HelperTask* task) {
  for (std::atomic<const HelperTask*>& place : tasks) {
    if (place.load(std::memory_order_relaxed) != nullptr) continue;
    place.store(task, std::memory_order_release);
    if (process_of_thread.load(std::memory_order_relaxed) != 0) {
      Wake();
      return true;
    }
    if (Start()) return true;
    place.store(nullptr, std::memory_order_relaxed);
    return false;
  }
  return false;
}

bool HandleSignalInHelper(int signal) {
  // Another task may have installed our handler for this signal already.
  return SignalIsHandledBy(signal, &OnSignal) || HandleSignal(signal, &OnSignal);
}

void AwaitEndBySignal() {
  if (end_signal.load(std::memory_order_relaxed) == kNone ||
      process_of_thread.load(std::memory_order_relaxed) != ProcessId()) {
    return;
  }
  for (int i = 0; i < kMaxWriteWaitMs; ++i) WaitMillisecond();
}

void RestartHelperInChild() {
  if (process_of_thread.load(std::memory_order_relaxed) == 0) return;
  // Signals received before the fork belong to the parent.
  came.store(0, std::memory_order_relaxed);
  end_signal.store(kNone, std::memory_order_relaxed);
  if (Start()) return;
  char buffer[128];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: cannot start the report thread in forked process ").Number(ProcessId());
  line.Text(": it writes no reports on signals or at intervals\n");
  WriteToStderr(line.text());
}

}  // namespace tcmalloc
