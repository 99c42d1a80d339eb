// SPDX-License-Identifier: BSD-3-Clause
// Detects whether a sandbox restricts the system calls of this process (seccomp).
#pragma once

#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "os/errno_keeper.h"

namespace tcmalloc {

// True when a filter was set up before the call. A process cannot find out which calls the filter
// refuses, and whether it refuses them by an error or ends the process. Never allocates; keeps
// errno. Cost: a system call. The call would end a process in seccomp's strict mode, which forbids
// memory calls as well.
inline bool HasSystemCallFilter() {
  const ErrnoKeeper keeper;
  return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

}  // namespace tcmalloc
