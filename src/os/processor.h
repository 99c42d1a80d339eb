// SPDX-License-Identifier: BSD-3-Clause
// The processor that the calling thread runs on.
#pragma once

#include <sched.h>

namespace tcmalloc {

// Its number, which may be out of date as soon as it is returned; -1 when the system does not tell.
// Cost: a load where the C library has registered restartable sequences, a call into the kernel's
// vDSO (some ten nanoseconds) else.
inline int CurrentProcessor() { return sched_getcpu(); }

}  // namespace tcmalloc
