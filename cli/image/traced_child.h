// SPDX-License-Identifier: BSD-3-Clause
// RunTraced: runs a program and looks at it in the moment before it ends, when its memory is still
// there. The program is traced for that, so no debugger can attach to its main thread meanwhile;
// its other threads are not traced, and its children only if asked for. Nothing is put into it but
// what the dynamic linker loads.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace cli {

enum class Children : bool {
  kIgnore,
  kFollow,  // also those of children: none of them can trace another process
};

// `environment` is added to this program's. Calls `at_end(pid)` when the main thread of a traced
// process is about to end; not when the system forbids tracing. Returns the exit status as a shell
// does: 128 and the number of the signal that killed it. Throws Failure when the program cannot be
// started.
int RunTraced(const std::vector<std::string>& command, const std::vector<std::string>& environment,
              Children children, const std::function<void(pid_t)>& at_end);

}  // namespace cli
