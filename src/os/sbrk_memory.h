// SPDX-License-Identifier: BSD-3-Clause
// SbrkMemory: memory behind the program's data segment, from sbrk. It never moves the break down
// and never assumes that nobody else moves it: the program may call sbrk too, and what lies between
// two pieces of ours may be the program's.
//
// Called by: AnonymousMemory. Lock: LockRank::kBreak. It is held over the system call, because sbrk
// in two threads at once returns the same memory to both. Cost: one or two system calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/spinlock.h"

namespace tcmalloc {

class SbrkMemory {
 public:
  // Zero-filled memory at a multiple of `alignment` and of `hardware_page`; null when the system
  // refuses. Keeps errno. Requires: bytes a multiple of hardware_page, alignment a power of two.
  void* Map(size_t bytes, size_t alignment, size_t hardware_page) TC_EXCLUDES(lock_);

  // Some of the range may be memory from here: it lies between the lowest and the highest address
  // that came.
  bool MayHold(const void* start, size_t bytes) TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  SpinLock lock_{LockRank::kBreak};
  uintptr_t lowest_ TC_GUARDED_BY(lock_) = UINTPTR_MAX;
  uintptr_t highest_ TC_GUARDED_BY(lock_) = 0;
};

}  // namespace tcmalloc
