// SPDX-License-Identifier: BSD-3-Clause
#include "os/signals.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/errno_keeper.h"

namespace tcmalloc {

static_assert(kTerminationSignal == SIGTERM);

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

bool SignalIsHandledBy(int signal, void (*handler)(int)) {
  struct sigaction now = {};
  return sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == handler;
}

bool AsksToEnd(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

void PassSignalOn(int signal, void (*handler)(int)) {
  const ErrnoKeeper keeper;
  if (SignalIsHandledBy(signal, handler)) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  syscall(SYS_kill, getpid(), signal);
}

}  // namespace tcmalloc
