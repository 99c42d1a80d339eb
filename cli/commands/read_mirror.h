// SPDX-License-Identifier: BSD-3-Clause
// Copies the memory of a process at a moment at which it is stopped, or its heap at rest.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "commands/open_process.h"
#include "image/mirror.h"
#include "image/stop.h"

namespace cli {

// CopyStopped: copies memory of a process while all its threads are stopped.

struct StoppedCopy {
  bool copied = false;
  // Empty when they were not requested, or when some of them are those of an unknown machine.
  std::vector<ThreadRegisters> threads;
};

// Stops the process, calls `copy`, and lets the process continue. `copy` returns false when a guard
// is set, so that its copy is useless. Sets the number of threads in the mode, and its pause to the
// longest so far. With mode->registers, the result has the registers. Throws Failure.
StoppedCopy CopyStopped(pid_t pid, ReadMode* mode,
                        const std::function<bool(StoppedThreads&)>& copy);

// Copies all memory of a process that may hold pointers, at a moment at which its heap is at rest.

// Reads the data of a report from the mirror, and adds the guards that must not be set in it.
// `stopped` is true if the mirror is of one moment. It is called several times; the last call
// counts.
using MirrorReading =
    std::function<void(Mirror&, const Target&, bool stopped, std::vector<Guard>*)>;

// Like ReadAtRest, but with a copy of all the memory. Returns the mirror of the last call. Without
// mode.stop the memory is copied while the process runs.
std::unique_ptr<Mirror> ReadMirror(OpenProcess& process, ReadMode* mode, const MirrorReading& read);

}  // namespace cli
