// SPDX-License-Identifier: BSD-3-Clause
// StopPhase: how far an attempt to stop the other threads has come (os/world_stop.h), as its two
// sides share it: the caller's thread, which waits, and the task, which works. And the decision
// what the attempt resulted in, once the task is gone.
//
// Thread safety: the two sides only. Cost: an atomic operation or a futex call. errno is not used:
// while the task exists, the thread-local storage of the caller is the task's.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/world_stop.h"

namespace tcmalloc {

class StopPhase {
 public:
  // The phase says which side may go on. In kAwaiting the task changes nothing, so the caller may
  // kill it.
  enum Value : uint32_t {
    kPrepared,   // the task waits for the caller
    kStopping,   // the caller waits for the task
    kAwaiting,   // the caller waits for the task, and the task for a thread
    kStopped,    // the caller waits for the task, however long it takes
    kFailed,     // the task ends without having run the function
    kAbandoned,  // the caller has killed the task because it took too long
  };

  Value Get() const { return static_cast<Value>(value_.load(std::memory_order_acquire)); }
  void Set(Value to) { value_.store(to, std::memory_order_release); }
  // False when the phase is not `from`.
  bool Change(Value from, Value to) {
    uint32_t expected = from;
    return value_.compare_exchange_strong(expected, to, std::memory_order_acq_rel,
                                          std::memory_order_acquire);
  }

  // Wakes the other side.
  void Wake();
  // Waits until the other side wakes this one, at most `ns` nanoseconds (less than a second);
  // returns at once unless the phase is `value`. May return early.
  void WaitWhile(Value value, int64_t ns);
  // The same without a limit.
  void WaitWhile(Value value);

  // The task calls it: runs `wait`, which waits for the thread `id` (0: for none in particular), in
  // phase kAwaiting. False where the caller has run out of patience; then it kills the task.
  template <typename F>
  bool Await(int id, F wait) {
    if (id != 0) awaited_.store(id, std::memory_order_relaxed);
    if (!Change(kStopping, kAwaiting)) return false;
    wait();
    return Change(kAwaiting, kStopping);
  }

  // The thread that Await was last called for.
  int awaited() const { return awaited_.load(std::memory_order_relaxed); }
  // Where the task stores the signal that it dies of; 0 for none.
  std::atomic<int>* fatal_signal() { return &fatal_signal_; }

 private:
  // Written and read by both sides, which wait on it: stores release, loads acquire.
  std::atomic<uint32_t> value_{kPrepared};
  // Written by the task, read by the caller when the task is gone, which orders the two: relaxed.
  std::atomic<int> awaited_{0};
  std::atomic<int> fatal_signal_{0};
};

// How a task ended.
struct TaskEnd {
  StopPhase::Value phase = StopPhase::kPrepared;
  // The signal that ended it; 0 for none.
  int signal = 0;
  // The thread that it waited for last.
  int awaited_thread = 0;
};

// The result of an attempt whose task wrote `written` before it ended. A pure function.
StopResult ResultOfTask(const StopResult& written, const TaskEnd& end);

}  // namespace tcmalloc
