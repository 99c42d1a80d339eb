// SPDX-License-Identifier: BSD-3-Clause
// A scope in which the calling thread runs no signal handler: all signals are blocked but those
// that the C library keeps for itself. Cost: two system calls. Threads that are started in it have
// them blocked for good.
#pragma once

#include <signal.h>

namespace tcmalloc {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tcmalloc
