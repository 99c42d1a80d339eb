// SPDX-License-Identifier: BSD-3-Clause
// Clocks for policies: cheap, coarse, monotonic. The functions keep errno. Without a vDSO these are
// system calls; if a sandbox forbids them, the time is 0.
//
// They call the kernel's function in the vDSO, not the C library's clock_gettime. Another library
// may replace that (libfaketime does), allocate in it, and set the time back.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include "os/errno_keeper.h"

namespace tcmalloc {

// Sets `now` to the time of the clock with that number; leaves it as it is if the kernel refuses.
void ReadClock(clockid_t clock, timespec* now);

// Milliseconds since some moment before the process started, with the precision of the kernel's
// clock tick (1 to 10 ms). Cost: a few nanoseconds, no system call where the kernel has a vDSO.
// Thread safety: any.
inline int64_t CoarseMilliseconds() {
  timespec now = {};
  ReadClock(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Microseconds since such a moment, with full precision. Cost: some ten nanoseconds more.
inline int64_t Microseconds() {
  timespec now = {};
  ReadClock(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

// Nanoseconds since such a moment, with full precision.
inline int64_t Nanoseconds() {
  timespec now = {};
  ReadClock(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Nanoseconds since 1970.
inline int64_t WallClockNanoseconds() {
  timespec now = {};
  ReadClock(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Sleeps for about a millisecond. Unlike the C library's functions, it is not a cancellation point
// (see os/files.h). Keeps errno.
inline void WaitMillisecond() {
  struct {  // the system call's layout, even where time_t is longer
    long seconds = 0;
    long nanoseconds = 1'000'000;
  } time;
  const ErrnoKeeper keeper;
  syscall(SYS_nanosleep, &time, nullptr);
}

}  // namespace tcmalloc
