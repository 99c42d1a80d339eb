// SPDX-License-Identifier: BSD-3-Clause
// Stopping a process, and how long a reader waits for it to be at rest.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "image/image.h"
#include "image/process.h"
#include "image/remote_call.h"
#include "image/thread_registers.h"

namespace cli {

// Patience: how long a reader tries again while a target changes.

// How long a target runs before it is stopped again, if it was in the middle of a change or had no
// thread that can be stopped. How often that happens depends on how busy the machine is, so the
// number of stops has no bound.
constexpr auto kStopPause = std::chrono::milliseconds(1);

class Patience {
 public:
  bool IsOver() const { return std::chrono::steady_clock::now() > end_; }

 private:
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(20);
};

// Calls `read` until it does not throw BadImage, which it does while the target is in the middle of
// a change. Between two attempts the target runs. Gives up at once when it has ended.
template <typename Read>
auto ReadWhileItChanges(pid_t pid, const Read& read) {
  for (const Patience patience;; std::this_thread::sleep_for(kStopPause)) {
    try {
      return read();
    } catch (const NotPublished&) {
      throw;
    } catch (const BadImage&) {
      if (patience.IsOver() || HasEnded(pid)) throw;
    }
  }
}

// StoppedThreads: stops all threads of a process while it exists (PTRACE_SEIZE and INTERRUPT). The
// threads continue when it is destroyed, or when this program ends in any way. A thread in a system
// call may get EINTR from it: epoll_wait, semop, sigtimedwait.

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
