// SPDX-License-Identifier: BSD-3-Clause
// StoppedThreads: stops all threads of a process while it exists (PTRACE_SEIZE and INTERRUPT). The
// threads continue when it is destroyed, or when this program ends in any way. A thread in a system
// call may get EINTR from it: epoll_wait, semop, sigtimedwait.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "image/remote_call.h"
#include "image/thread_registers.h"

namespace cli {

// The registers of a thread that this program traces and that is stopped, without its name and its
// signal. Nullopt if it has ended, or its machine is unknown.
std::optional<ThreadRegisters> ReadStoppedRegisters(pid_t thread);

class StoppedThreads {
 public:
  // Throws Failure when a thread may not be stopped; then no thread stays stopped.
  explicit StoppedThreads(pid_t pid) : StoppedThreads(pid, 0) {}
  // Stops only that thread; 0 for all.
  StoppedThreads(pid_t pid, pid_t only);
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;
  ~StoppedThreads() { Resume(); }

  size_t count() const { return threads_.size(); }
  // The time at which the first thread was interrupted; until then all of them ran.
  std::chrono::steady_clock::time_point begin() const { return begin_; }
  // Returns the registers of the threads, by number, without names. Threads of unknown machines are
  // omitted.
  std::vector<ThreadRegisters> ReadRegisters() const;
  // Makes any one of the threads execute a system call (remote_call.h). Nullopt if none of them can
  // at this moment. Throws Failure if none of them ever can.
  std::optional<RemoteCallResult> Call(const RemoteCall& call, uintptr_t options);

 private:
  struct Thread {
    bool stopped = false;
    int signal = 0;  // the signal that the thread was about to get when it stopped
  };

  // Seizes threads that are new; false when there are none.
  bool SeizeNew();
  // Stops the threads that are not stopped; those that have ended are forgotten. Throws Failure
  // when one does not stop.
  void InterruptAndWait();
  // False while the thread runs.
  bool NoteStop(pid_t thread);
  void Resume();

  const pid_t pid_;
  const pid_t only_;
  std::chrono::steady_clock::time_point begin_;
  std::map<pid_t, Thread> threads_;
};

}  // namespace cli
