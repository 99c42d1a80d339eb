// SPDX-License-Identifier: BSD-3-Clause
#include "os/process.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace tcmalloc {

uint64_t ProcessId() { return static_cast<uint64_t>(getpid()); }

int64_t WallNanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool RemoveFile(const char* path) { return unlink(path) == 0; }

bool HandleSignal(int signal, void (*handler)(int)) {
  struct sigaction before = {};
  if (sigaction(signal, nullptr, &before) != 0) return false;
  if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) return false;
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  return sigaction(signal, &action, nullptr) == 0;
}

}  // namespace tcmalloc
