// SPDX-License-Identifier: BSD-3-Clause
// Signals that the library handles because a setting asks for it. Thread safety: any. Never
// allocates.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcmalloc {

// The largest number of a signal.
inline constexpr int kMaxSignal = 64;
inline constexpr int kTerminationSignal = 15;  // SIGTERM

// The number of a signal by its name, with or without SIG in front, or by its decimal number. 0:
// there is no such signal, or no program can handle it.
int SignalNumber(std::string_view name);

// Calls `handler` for the signal from now on, with system calls restarted and all other signals
// blocked meanwhile. False when there is no such signal, or it is handled or ignored already.
// Changes errno.
bool HandleSignal(int signal, void (*handler)(int));

bool SignalIsHandledBy(int signal, void (*handler)(int));

// The signal tells a process to end, and does so by default: SIGTERM, SIGINT, SIGHUP, SIGQUIT.
bool AsksToEnd(int signal);

// Sends the signal to the process. Where `handler` still handles it, the default action comes
// first back into force: the process ends as soon as some thread has the signal unblocked. errno is
// kept. Signal handlers may call it.
void PassSignalOn(int signal, void (*handler)(int));

}  // namespace tcmalloc
