// SPDX-License-Identifier: BSD-3-Clause
#include "os/signals.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "base/text.h"
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

int SignalNumber(std::string_view name) {
  struct Named {
    std::string_view name;
    int signal;
  };
  // Signals that a user may send. SIGKILL and SIGSTOP cannot be handled; fault signals must not be.
  static constexpr Named kSignals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},    {"QUIT", SIGQUIT},
                                       {"USR1", SIGUSR1}, {"USR2", SIGUSR2},  {"ALRM", SIGALRM},
                                       {"TERM", SIGTERM}, {"CONT", SIGCONT},  {"URG", SIGURG},
                                       {"PROF", SIGPROF}, {"WINCH", SIGWINCH}};
  uint64_t number = 0;
  if (TakeNumber(&name, &number)) {
    constexpr uint64_t kMaxSignal = 64;
    constexpr uint64_t kFirstRealTime = 34;  // the C library reserves some lower ones
    if (!name.empty() || number > kMaxSignal) return 0;
    for (const Named& known : kSignals) {
      if (static_cast<uint64_t>(known.signal) == number) return known.signal;
    }
    return number >= kFirstRealTime ? static_cast<int>(number) : 0;
  }
  if (StartsWith(name, "SIG")) name.remove_prefix(3);
  for (const Named& known : kSignals) {
    if (known.name == name) return known.signal;
  }
  return 0;
}

}  // namespace tcmalloc
