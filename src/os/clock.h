// SPDX-License-Identifier: BSD-3-Clause
// Time as policies need it: cheap, coarse, never backwards. errno is kept, also where a sandbox
// forbids the system call that a process without a vDSO makes: the time is 0 then.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include "os/errno_keeper.h"

namespace tcmalloc {

// Milliseconds since some moment before the process started, to the precision of the kernel's
// clock tick (1 to 10 ms). Cost: a few nanoseconds, no system call where the kernel has a vDSO.
// Thread safety: any.
inline int64_t CoarseMilliseconds() {
  const ErrnoKeeper keeper;
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Microseconds since the same kind of moment, exact. Cost: some ten nanoseconds more.
inline int64_t Microseconds() {
  const ErrnoKeeper keeper;
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

// Nanoseconds since 1970.
inline int64_t WallClockNanoseconds() {
  const ErrnoKeeper keeper;
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Lets others run for about a millisecond. No cancellation point, as the C library's functions for
// it are (see os/uncancelled_io.h); `errno` is kept.
inline void WaitMillisecond() {
  struct {  // as the system call has it, also where time_t is longer
    long seconds = 0;
    long nanoseconds = 1'000'000;
  } time;
  const ErrnoKeeper keeper;
  syscall(SYS_nanosleep, &time, nullptr);
}

}  // namespace tcmalloc
