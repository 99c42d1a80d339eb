// SPDX-License-Identifier: BSD-3-Clause
// Reads memory of the program that may be unreadable or unmapped: memory that the program has
// protected, that another thread is unmapping, or that is beyond the end of a file.
//
// There are two ways. A guarded reader uses plain loads, and the handler of HandleFaults skips a
// load that faults. That costs nothing when the load succeeds, but works only on x86 and 64-bit
// ARM, and only on a task with its own signal handlers (instruments/world_stop/world_stop.h). Any
// other reader calls process_vm_readv, which fails instead of faulting. That works everywhere,
// unless a sandbox forbids it, and costs some hundred nanoseconds per call.
//
// Thread safety: any. Allocates nothing, changes errno.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

class MemoryReader {
 public:
  // `guarded` is true if the calling task has called HandleFaults. (It has no effect unless
  // CanGuard().)
  explicit MemoryReader(bool guarded) : guarded_(guarded) {}

  // True if Copy is exact to the byte.
  bool CanGuard() const;

  // False if no memory can be read: then Copy fails for readable memory, too.
  bool Works() const;

  // Copies [from, from + bytes) up to the first unreadable byte, and returns how many bytes it
  // copied. Without a guard it copies no byte of a page that is not fully readable.
  size_t Copy(void* to, uintptr_t from, size_t bytes) const;

  // The word at `address`, which need not be aligned; 0 if unreadable.
  uintptr_t Word(uintptr_t address) const {
    uintptr_t word = 0;
    return Copy(&word, address, sizeof(word)) == sizeof(word) ? word : 0;
  }

 private:
  const bool guarded_;
};

// Makes the calling task survive the faults of a guarded MemoryReader, and end by _exit at any
// other fault, with the signal stored in `*fatal_signal`. So a task that shares memory with others
// does not end them, too (before Linux 5.16 a signal that dumps core ends every process that shares
// the memory). Unblocks the fault signals. The handlers run on [stack, stack + bytes), for which
// kFaultStackBytes is enough, so that they also run when the task's own stack has overflowed.
// Requires: the task shares its signal handlers with no other (no CLONE_SIGHAND). False when the OS
// refuses.
inline constexpr size_t kFaultStackBytes = size_t{64} << 10;
bool HandleFaults(void* stack, size_t bytes, std::atomic<int>* fatal_signal);

}  // namespace tcmalloc
