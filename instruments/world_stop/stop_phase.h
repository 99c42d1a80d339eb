// SPDX-License-Identifier: BSD-3-Clause
// StopPhase: the state of an attempt to stop the other threads
// (instruments/world_stop/world_stop.h), shared by the caller's thread, which waits, and the task,
// which works. Also derives the result of the attempt after the task has ended.
//
// Thread safety: only these two may use it. Cost: an atomic operation or a futex call. errno is not
// used: while the task exists, it uses the caller's thread-local storage.
#pragma once

#include <atomic>
#include <cstdint>

#include "instruments/world_stop/world_stop.h"

namespace tcmalloc {

class StopPhase {
 public:
  // The phase says which side may proceed. In kAwaiting the task changes nothing, so the caller may
  // kill it.
  enum Value : uint32_t {
    kPrepared,   // the task waits for the caller
    kStopping,   // the caller waits for the task
    kAwaiting,   // the caller waits for the task, and the task for a thread
    kStopped,    // the caller waits for the task, however long it takes
    kFailed,     // the task ends and has not run the function
    kAbandoned,  // the caller has killed the task because it took too long
  };

  Value Get() const { return static_cast<Value>(value_.load(std::memory_order_acquire)); }
  void Set(Value to) { value_.store(to, std::memory_order_release); }
  // Replaces phase `from` by `to`. False when the phase is not `from`.
  bool Change(Value from, Value to) {
    uint32_t expected = from;
    return value_.compare_exchange_strong(expected, to, std::memory_order_acq_rel,
                                          std::memory_order_acquire);
  }

  void Wake();
  // Waits until the other side calls Wake, at most `ns` nanoseconds (less than a second). Returns
  // at once unless the phase is `value`. May return early.
  void WaitWhile(Value value, int64_t ns);
  // As above, without a time limit.
  void WaitWhile(Value value);

  // For the task: runs `wait`, which waits for the thread `id` (0 for no particular one), in phase
  // kAwaiting. False when the caller's patience has ended; it then kills the task.
  template <typename F>
  bool Await(int id, F wait) {
    if (id != 0) awaited_.store(id, std::memory_order_relaxed);
    if (!Change(kStopping, kAwaiting)) return false;
    wait();
    return Change(kAwaiting, kStopping);
  }

  // The thread of the last Await.
  int awaited() const { return awaited_.load(std::memory_order_relaxed); }
  // The variable in which the task stores the signal that ends it; 0 for none.
  std::atomic<int>* fatal_signal() { return &fatal_signal_; }

 private:
  // Both sides write it, and read it to wait: stores release, loads acquire.
  std::atomic<uint32_t> value_{kPrepared};
  // The task writes these, and the caller reads them after the task has ended, which orders the
  // accesses, so they are relaxed.
  std::atomic<int> awaited_{0};
  std::atomic<int> fatal_signal_{0};
};

struct TaskEnd {
  StopPhase::Value phase = StopPhase::kPrepared;
  // The signal that ended the task; 0 for none.
  int signal = 0;
  // The thread that the task last waited for.
  int awaited_thread = 0;
};

// The result of an attempt whose task wrote `written` before it ended. A pure function.
StopResult ResultOfTask(const StopResult& written, const TaskEnd& end);

}  // namespace tcmalloc
