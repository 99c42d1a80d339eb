// SPDX-License-Identifier: BSD-3-Clause
// The processor that the calling thread runs on.
#pragma once

#include <sched.h>

#include "os/errno_keeper.h"

namespace tcmalloc {

// Its number, which may be out of date as soon as it is returned; -1 when the system does not tell.
// Cost: a load where the C library has registered restartable sequences, a call into the kernel's
// vDSO (some ten nanoseconds) else. errno is kept.
inline int CurrentProcessor() {
  // The system call, where it takes one, may be forbidden by a sandbox.
  const ErrnoKeeper keeper;
  return sched_getcpu();
}

}  // namespace tcmalloc
