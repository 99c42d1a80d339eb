// SPDX-License-Identifier: BSD-3-Clause
// The CPU that the calling thread runs on.
#pragma once

#include <sched.h>

#include <atomic>

#include "base/config.h"
#include "os/errno_keeper.h"

namespace tcmalloc {

// Debug builds only: functions by which a test, instead of the OS, decides on which CPU a thread
// runs. So a test can have more CPUs than the machine. No environment variable sets it, and release
// builds lack it, so no program can turn it on.
struct FakeProcessor {
  int (*cpu)();
};
// Written once, before other threads exist. Relaxed, since the functions that it points to are
// constant.
inline constinit std::atomic<const FakeProcessor*> fake_processor{nullptr};

// Returns the CPU's number, which may be outdated at once; -1 when the OS does not report it. Cost:
// a load if the C library has registered restartable sequences, otherwise a call into the vDSO
// (some ten nanoseconds). Keeps errno.
inline int CurrentProcessor() {
  if constexpr (kDebugBuild) {
    const FakeProcessor* const fake = fake_processor.load(std::memory_order_relaxed);
    if (fake != nullptr) return fake->cpu();
  }
  // sched_getcpu may make a system call, which a sandbox may forbid.
  const ErrnoKeeper keeper;
  return sched_getcpu();
}

}  // namespace tcmalloc
