// SPDX-License-Identifier: BSD-3-Clause
// Waits until a word in memory changes (Linux: futex), among threads of one process. Keeps errno,
// is no cancellation point, never allocates. Thread safety: any. Cost: a system call.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "os/errno_keeper.h"

namespace tcmalloc {

// Sleeps until a wake, if the word has this value. May return early.
inline void FutexWait(std::atomic<uint32_t>* word, uint32_t value) {
  const ErrnoKeeper keeper;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

// Like FutexWait, for at most `ms` milliseconds.
inline void FutexWaitFor(std::atomic<uint32_t>* word, uint32_t value, int64_t ms) {
  struct {  // the system call's layout, even where time_t is longer
    long seconds;
    long nanoseconds;
  } const time = {static_cast<long>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  const ErrnoKeeper keeper;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &time, nullptr, 0);
}

inline void FutexWakeOne(std::atomic<uint32_t>* word) {
  const ErrnoKeeper keeper;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

inline void FutexWakeAll(std::atomic<uint32_t>* word) {
  const ErrnoKeeper keeper;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tcmalloc
