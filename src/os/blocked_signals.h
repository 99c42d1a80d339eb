// SPDX-License-Identifier: BSD-3-Clause
// A scope in which the calling thread runs no signal handler. Not blocked are:
//   * the signals that the C library keeps for itself, by which setuid reaches all threads;
//   * SIGSYS, unless the thread blocks it anyway. A seccomp filter may have the program's handler
//     answer a system call by it; the kernel ends the process when the thread blocks it.
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
