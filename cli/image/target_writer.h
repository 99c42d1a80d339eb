// SPDX-License-Identifier: BSD-3-Clause
// Changing a running process: writing into its memory, and waking its threads.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string_view>

#include "image/image.h"

namespace cli {

// TargetWriter: writes into the memory of a running process. Beside this, only Sleeper and
// ForkedCopy change another process. All need the right to trace it. The process runs only its own
// code: nothing is injected.

// The memory is that which the process has when the writer is made: it never writes into another
// program that the process starts with exec.
class TargetWriter {
 public:
  // Throws Failure, also if /proc is mounted read-only: only its file refers to the memory of this
  // program even after an exec; the system calls refer to that of the next program.
  explicit TargetWriter(pid_t pid);
  ~TargetWriter();
  TargetWriter(const TargetWriter&) = delete;
  TargetWriter& operator=(const TargetWriter&) = delete;

  // Locks the process against other writers, also in other instances of this program. False when
  // another one has the lock. The lock ends with this object, or with this program.
  bool TryLock();
  // True if the memory at that address begins with `content`.
  bool Has(Address address, std::string_view content) const;
  // Writes all bytes, in one call; a reader in the process may see a part of them first. Throws
  // Failure.
  void Write(Address address, const void* data, size_t bytes);
  template <typename T>
  void WriteValue(Address address, const T& value) {
    Write(address, &value, sizeof(T));
  }

 private:
  const pid_t pid_;
  int memory_ = -1;  // its file /proc/PID/mem
};

// Sleeper: a thread of a running process that sleeps in a system call, and that a command wakes.
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
  // Continues the thread that was told to stop, once it has stopped. Returns false if it has not
  // stopped yet.
  bool ContinueOnceStopped();

  const pid_t pid_;
  pid_t traced_ = 0;  // the thread that was told to stop and did not continue yet
};

}  // namespace cli
