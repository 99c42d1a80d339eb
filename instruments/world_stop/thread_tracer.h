// SPDX-License-Identifier: BSD-3-Clause
// ThreadTracer: stops all other threads of the process by ptrace, reads their registers, and
// resumes them. By StopPhase the task on which it runs and the caller see how far the other is.
//
// It runs on a task that shares the process's memory but is not one of its threads
// (instruments/world_stop/world_stop.h), since a thread cannot trace threads of its own process. It
// sends no signal and reads no thread's memory. Not thread-safe. Takes no lock but those of `vm`;
// changes errno. Cost: three system calls per thread to stop, two to read and one to resume.
// Threads stop within microseconds unless they wait for a CPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "instruments/world_stop/world_stop.h"
#include "os/memory/mapped_array.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

// The state of an attempt to stop the other threads
// (instruments/world_stop/world_stop.h), shared by the caller's thread, which waits, and the task,
// which works. Also derives the result of the attempt after the task has ended.
//
// Thread safety: only these two may use it. Cost: an atomic operation or a futex call. errno is not
// used: while the task exists, it uses the caller's thread-local storage.
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

class ThreadTracer {
 public:
  // The process: its id, and the thread that is not stopped, because it waits for the task.
  struct Process {
    int id;
    int caller_id;
  };

  // By `phase` the caller sees when the task waits for a thread. Both outlive the tracer.
  ThreadTracer(VirtualMemory& vm, const Process& process, StopPhase& phase)
      : process_(process), phase_(phase), tracees_(vm), words_(vm), threads_(vm) {}
  ThreadTracer(const ThreadTracer&) = delete;
  ThreadTracer& operator=(const ThreadTracer&) = delete;

  // Stops all threads except the caller. `list` is open for the list of the process's threads.
  // False when that failed (see outcome()), or the caller's patience has ended. Stopped threads
  // stay stopped.
  bool StopAll(int list);
  // Reads the registers of all stopped threads. False when that failed (see outcome()). `caller`
  // becomes the first of threads().
  bool ReadRegisters(const StoppedThread& caller);
  // Resumes all threads.
  void ResumeAll();

  const MappedArray<StoppedThread>& threads() const { return threads_; }
  // The reason why a function returned false. kTaskDied means that the caller's patience has ended.
  StopOutcome outcome() const { return outcome_; }
  int error() const { return error_; }

 private:
  enum class State : uint8_t { kAttached, kStopped, kEnded };
  struct Tracee {
    int id;
    State state;
    // The signal that the thread was about to receive when it stopped; 0 for none.
    int signal;
  };

  bool Fail(StopOutcome outcome, int error) {
    outcome_ = outcome;
    error_ = error;
    return false;
  }
  // These functions return false when the attempt has failed, except where they say otherwise.
  bool ListsCaller();
  // Sets `*all` to whether the stopped threads and the caller are all threads of the process.
  bool HasAll(bool* all);
  bool AttachAll();
  bool Attach(int id);
  bool AttachFailed(Tracee* tracee, int id, int error);
  bool AwaitStop(Tracee* tracee);
  // Waits until the thread has stopped or ended. False when it will not stop soon.
  bool WaitFor(Tracee* tracee);
  // The entry of a thread, or null.
  Tracee* Find(int id);
  // Makes the entry of a thread, or changes the existing one (`known`). Null when there is no
  // memory; then the attempt has failed.
  Tracee* Note(Tracee* known, int id, State state);

  // Constant after construction.
  const Process process_;
  StopPhase& phase_;

  int list_ = -1;
  MappedArray<Tracee> tracees_;
  // The likely entry of the next listed thread, since the order of the list hardly changes.
  size_t next_ = 0;
  MappedArray<uintptr_t> words_;
  MappedArray<StoppedThread> threads_;
  StopOutcome outcome_ = StopOutcome::kTaskDied;
  int error_ = 0;
};

}  // namespace tcmalloc
