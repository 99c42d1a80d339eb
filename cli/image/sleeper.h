// SPDX-License-Identifier: BSD-3-Clause
// Sleeper: a thread of a running process that sleeps in a system call, and that a command wakes.
#pragma once

#include <sys/types.h>

#include "image/image.h"

namespace cli {

class Sleeper {
 public:
  explicit Sleeper(pid_t pid) : pid_(pid) {}
  // A thread that has not stopped yet is traced until this program ends.
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  // Stops the thread of the process that is in a system call with the stack pointer closely below
  // `frame`, and lets it continue at once: a wait on a futex whose word has changed ends, and
  // epoll_wait returns. False if no thread is there: it runs, and needs no call. False, too, if the
  // thread does not stop for 200 ms, as on a busy machine; the next call lets it continue once it
  // has stopped. Throws Failure if it may not be stopped.
  bool Interrupt(Address frame);

 private:
  // Of the thread that was told to stop. False: it has not stopped yet.
  bool ContinueOnceStopped();

  const pid_t pid_;
  pid_t traced_ = 0;  // the thread that was told to stop and did not continue yet
};

}  // namespace cli
