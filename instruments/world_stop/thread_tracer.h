// SPDX-License-Identifier: BSD-3-Clause
// ThreadTracer: stops all other threads of the process by ptrace, reads their registers, and
// resumes them.
//
// It runs on a task that shares the process's memory but is not one of its threads
// (instruments/world_stop/world_stop.h), since a thread cannot trace threads of its own process. It
// sends no signal and reads no thread's memory. Not thread-safe. Takes no lock but those of `vm`;
// changes errno. Cost: three system calls per thread to stop, two to read and one to resume.
// Threads stop within microseconds unless they wait for a CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/world_stop/stop_phase.h"
#include "instruments/world_stop/world_stop.h"
#include "os/memory/mapped_array.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

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
