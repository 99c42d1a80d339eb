// SPDX-License-Identifier: BSD-3-Clause
// The CPU that the calling thread runs on.
#pragma once

#include <sched.h>

#include "os/errno_keeper.h"

namespace tcmalloc {

// Its number, which may be outdated as soon as it is returned; -1 when the OS does not tell. Cost:
// a load where the C library has registered restartable sequences, otherwise a call into the vDSO
// (some ten nanoseconds). Keeps errno.
inline int CurrentProcessor() {
  // A sandbox may forbid the system call, where there is one.
  const ErrnoKeeper keeper;
  return sched_getcpu();
}

}  // namespace tcmalloc
