// SPDX-License-Identifier: BSD-3-Clause
// Reading memory of the program's that may not be readable, or no longer be there: what the program
// has protected, what another thread unmaps meanwhile, what lies behind the end of a file.
//
// Two ways. Guarded: a load that faults is skipped by the handler of HandleFaults, so that it costs
// nothing where it succeeds; only on a task with signal handlers of its own (os/world_stop.h) and
// only on x86. By the system: process_vm_readv, which fails instead of faulting; everywhere, unless
// a sandbox forbids it, and some hundred nanoseconds per call.
//
// Thread safety: any. Allocates nothing, changes errno.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

class MemoryReader {
 public:
  // `guarded`: the calling task has called HandleFaults (it matters only where CanGuard()).
  explicit MemoryReader(bool guarded) : guarded_(guarded) {}

  // Copy stops at the very byte.
  bool CanGuard() const;

  // False where nothing at all can be read: then a failure of Copy says nothing about the memory.
  bool Works() const;

  // Copies [from, from + bytes), up to the first byte that cannot be read; returns how many bytes
  // it has copied. Where the system does it, that is nothing of the page that cannot be read whole.
  size_t Copy(void* to, uintptr_t from, size_t bytes) const;

  // The word at `address`, which need not be aligned; 0 where it cannot be read.
  uintptr_t Word(uintptr_t address) const {
    uintptr_t word = 0;
    return Copy(&word, address, sizeof(word)) == sizeof(word) ? word : 0;
  }

 private:
  const bool guarded_;
};

// Has the calling task survive faults of a guarded MemoryReader, and exit at any other fault, by
// _exit, with the signal stored in `*fatal_signal`: so that a task that shares memory with others
// does not take them with it (before Linux 5.16 a signal that dumps core ends every process that
// shares the memory). Unblocks the signals of faults. The handlers run on [stack, stack + bytes),
// of which kFaultStackBytes suffice: so they also run when the task's own stack has overflowed.
// Requires: the task shares its signal handlers with no other (no CLONE_SIGHAND). False when the
// system refuses.
inline constexpr size_t kFaultStackBytes = size_t{64} << 10;
bool HandleFaults(void* stack, size_t bytes, std::atomic<int>* fatal_signal);

}  // namespace tcmalloc
