// SPDX-License-Identifier: BSD-3-Clause
// StoppedThreads: stops all threads of a process while it exists (PTRACE_SEIZE and INTERRUPT). The
// threads continue when it is destroyed, or when this program ends in any way. A thread in a system
// call may get EINTR from it: epoll_wait, semop, sigtimedwait.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>

namespace cli {

class StoppedThreads {
 public:
  // Throws Failure when a thread may not be stopped; then no thread stays stopped.
  explicit StoppedThreads(pid_t pid);
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;
  ~StoppedThreads() { Resume(); }

  size_t count() const { return threads_.size(); }
  // When the first thread was interrupted: until then all of them ran.
  std::chrono::steady_clock::time_point begin() const { return begin_; }

 private:
  struct Thread {
    bool stopped = false;
    int signal = 0;  // on its way to the thread when it stopped
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
  std::chrono::steady_clock::time_point begin_;
  std::map<pid_t, Thread> threads_;
};

}  // namespace cli
