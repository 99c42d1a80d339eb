// SPDX-License-Identifier: BSD-3-Clause
// CopyStopped: copies memory of a process while all its threads are stopped.
#pragma once

#include <functional>
#include <vector>

#include "commands/open_process.h"
#include "image/stop.h"

namespace cli {

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

}  // namespace cli
