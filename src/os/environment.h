// SPDX-License-Identifier: BSD-3-Clause
// The process: its environment, its privileges, its ids, and whether a sandbox restricts it.
// Changes nothing; never allocates.
#pragma once

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "os/errno_keeper.h"

namespace tcmalloc {

// Calls `visit(name, name_length, value, context)` for each variable of the environment, even
// before the C library has set up `environ` (the dynamic linker allocates earlier). Values are
// zero-terminated and valid until `visit` returns.
using EnvironmentVisitor = void (*)(const char* name, size_t name_length, const char* value,
                                    void* context);
void ForEachEnvironmentVariable(EnvironmentVisitor visit, void* context);

// Whether the process has more privileges than its user: true if the program is setuid or setgid,
// or has file capabilities (AT_SECURE).
bool RunsWithRaisedPrivileges();

// The ids of the calling process and of the calling thread, as the OS, debuggers and ps show them.
// Signal handlers may call these functions.
inline uint64_t ProcessId() { return static_cast<uint64_t>(getpid()); }

// Cost: a system call.
inline uint32_t ThreadId() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

// Whether a sandbox restricts the system calls of this process (seccomp): true when a filter was
// set up before the call. A process cannot find out which calls the filter refuses, and whether it
// refuses them by an error or ends the process. Keeps errno. Cost: a system call. The call would
// end a process in seccomp's strict mode, which forbids memory calls as well.
inline bool HasSystemCallFilter() {
  const ErrnoKeeper keeper;
  return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

}  // namespace tcmalloc
