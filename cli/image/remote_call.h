// SPDX-License-Identifier: BSD-3-Clause
// RemoteCall: makes a thread of another process execute one system call. Only RemoteCall and
// ForkedCopy, which needs it, make a process execute anything, and only when the user requested it.
// No code is put into the process: the thread runs a `syscall` instruction that the process has
// anyway, and no other instruction.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>

#include "image/image.h"

namespace cli {

struct RemoteCall {
  Address instruction = 0;  // the address of a `syscall` instruction
  long number = 0;
  std::array<uint64_t, 5> arguments = {};
};

struct RemoteCallResult {
  // False if the call was not made; it may succeed later.
  bool made = false;
  // The signal for which the thread stopped instead of making the call, and which it must still
  // get; 0 if there is none.
  int signal = 0;
  int64_t value = 0;  // negative: an errno
  pid_t child = 0;    // of clone: its PID in this program's namespace; 0 if there is none
};

// Whether a stopped thread can make a call without harm.
enum class MayCall : uint8_t { kYes, kNotNow, kNever };

// Finds a `syscall` instruction of the process. Nullopt if it has none, or this program was built
// for another machine.
std::optional<Address> FindCallInstruction(Image& image);

// Requires: this program traces the thread, by PTRACE_SEIZE, and it is in PTRACE_EVENT_STOP.
MayCall CanMakeCall(pid_t process, pid_t thread);

// Makes the thread execute the call. Afterwards it is stopped as before, with its former registers,
// and a system call in which it was interrupted continues as after any stop. Sets the thread's
// ptrace options, and the additional `options`. Requires: CanMakeCall. Throws Failure when the
// thread has ended.
RemoteCallResult MakeCall(pid_t thread, const RemoteCall& call, uintptr_t options);

// Returns the status (waitpid) of the next stop of a traced thread. Throws Failure when the thread
// has ended.
int AwaitNextStop(pid_t thread);

}  // namespace cli
