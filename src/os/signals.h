// SPDX-License-Identifier: BSD-3-Clause
// Signals that a setting makes the library handle. Thread safety: any. Never allocates.
#pragma once

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

}  // namespace tcmalloc
