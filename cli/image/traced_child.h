// SPDX-License-Identifier: BSD-3-Clause
// RunTraced: runs a program and examines it just before it ends, while it still has its memory. The
// program is traced for that, so no debugger can attach to its main thread meanwhile; its other
// threads are traced only if faults are requested, and its children only if requested. The program
// is not changed, except for the libraries that the dynamic linker loads.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "image/thread_registers.h"

namespace cli {

enum class Children : bool {
  kIgnore,
  kFollow,  // also those of children: none of them can trace another process
};

struct TraceEvents {
  // Called when the main thread of a traced process is about to end; never called when the OS
  // forbids tracing.
  std::function<void(pid_t)> at_end;
  // If set, every thread is traced. Called when a thread is about to get SIGSEGV or SIGBUS for its
  // own access; its process may have a handler. Only this thread is stopped.
  std::function<void(pid_t process, const ThreadRegisters&)> at_fault;
  // Called, if at_fault is set, when the process has become another program.
  std::function<void(pid_t)> at_exec;
  // Called when that signal has ended a traced process.
  std::function<void(pid_t, int signal)> killed;
};

// `environment` is added to this program's. It reaps every child of this program, so no other one
// may exist except during an event. Returns the exit status as a shell does: 128 plus the
// number of the signal if a signal killed the program. Throws Failure when the program cannot be
// started.
int RunTraced(const std::vector<std::string>& command, const std::vector<std::string>& environment,
              Children children, const TraceEvents& events);

}  // namespace cli
