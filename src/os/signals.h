// SPDX-License-Identifier: BSD-3-Clause
// Signals that a setting makes the library handle, and signals that a thread of the library does
// not handle. Thread safety: any. Never allocates.
#pragma once

#include <signal.h>

#include <string_view>

namespace tcmalloc {

inline constexpr int kTerminationSignal = 15;  // SIGTERM

// Installs `handler` for the signal, with system calls restarted and all other signals blocked
// while it runs. False when there is no such signal, or it is handled or ignored already. Changes
// errno.
bool HandleSignal(int signal, void (*handler)(int));

bool SignalIsHandledBy(int signal, void (*handler)(int));

// True if the signal asks a process to end, and ends it by default: SIGTERM, SIGINT, SIGHUP,
// SIGQUIT.
bool AsksToEnd(int signal);

// Sends the signal to the process. If `handler` still handles it, restores the default action
// first, so the process ends as soon as a thread does not block the signal. Keeps errno. Signal
// handlers may call it.
void PassSignalOn(int signal, void (*handler)(int));

// The number of the signal `name`: a name with or without SIG, or a decimal number. 0 when there is
// no such signal, or programs cannot handle it. A pure function.
int SignalNumber(std::string_view name);

// A scope in which the calling thread runs no signal handler. These signals are not blocked:
//   * the signals that the C library reserves for itself; by one of them setuid reaches all
//   threads;
//   * SIGSYS, unless the thread blocks it anyway. A seccomp filter may send it so that the
//     program's handler emulates a system call; if the thread blocks it, the kernel ends the
//     process.
// Threads that are started in the scope keep its mask. Cost: two system calls.
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
