// SPDX-License-Identifier: BSD-3-Clause
// A scope in which the calling thread runs no signal handler. These signals are not blocked:
//   * the signals that the C library reserves for itself; by one of them setuid reaches all
//   threads;
//   * SIGSYS, unless the thread blocks it anyway. A seccomp filter may send it so that the
//     program's handler emulates a system call; if the thread blocks it, the kernel ends the
//     process.
// Threads that are started in the scope keep its mask. Cost: two system calls.
#pragma once

#include <signal.h>

namespace tcmalloc {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSYS);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tcmalloc
