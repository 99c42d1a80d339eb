// SPDX-License-Identifier: BSD-3-Clause
// SbrkMemory: memory after the program's data segment, from sbrk. It never moves the break down.
// The program may call sbrk too, and own the memory between two pieces of this object.
//
// Called by: AnonymousMemory. Lock: LockRank::kBreak, held during the system call, because two
// concurrent sbrk calls return the same memory. Cost: one or two system calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/spinlock.h"

namespace tcmalloc {

class SbrkMemory {
 public:
  // Zero-filled memory at a multiple of `alignment` and of `hardware_page`; null when the OS
  // refuses. Keeps errno. Requires: bytes a multiple of hardware_page, alignment a power of two.
  void* Map(size_t bytes, size_t alignment, size_t hardware_page) TC_EXCLUDES(lock_);

  // True if the range may contain memory from this object: it overlaps the range between the lowest
  // and the highest address of that memory.
  bool MayHold(const void* start, size_t bytes) TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  SpinLock lock_{LockRank::kBreak};
  uintptr_t lowest_ TC_GUARDED_BY(lock_) = UINTPTR_MAX;
  uintptr_t highest_ TC_GUARDED_BY(lock_) = 0;
};

}  // namespace tcmalloc
