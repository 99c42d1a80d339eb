// SPDX-License-Identifier: BSD-3-Clause
// FrameMark: tells, for as long as nobody returned from it, that a function of this thread is still
// running. A flag that the function sets and clears does not: when what it calls is left by longjmp
// or by an exception, the rest of it never runs, and the flag stays set for good.
//
// The mark lies in the function's frame. A frame that the thread has left is at or below the
// innermost one, or something else was written over it since. Two errors remain: a frame that was
// left, that nothing was written over, and that deeper calls lie below again, counts as running
// until one of the two changes; and on a second stack at higher addresses (a coroutine's, a signal
// handler's) the thread seems to have left frames of the first. Who asks must be able to live with
// both.
//
// Stacks grow downwards. Thread safety: by the thread whose frame it is. Cost: a store each to
// begin and to end; to ask, a system call where the mark is above the caller's frame.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "base/compiler.h"
#include "os/errno_keeper.h"
#include "os/raw_memory.h"

namespace tcmalloc {

// False when the 8 bytes at `address` are no readable memory; true also where a sandbox forbids to
// ask. The kernel copies a set of signals from there before it finds that it is told nothing to do
// with it. Cost: a system call.
inline bool IsReadable(uintptr_t address) {
  constexpr int kNoSuchOperation = -1;
  constexpr size_t kSetBytes = 8;
  const ErrnoKeeper keeper;
  return syscall(SYS_rt_sigprocmask, kNoSuchOperation, address, nullptr, kSetBytes) != -1 ||
         errno != EFAULT;
}

class FrameMark {
 public:
  FrameMark() : tag_(TagAt(reinterpret_cast<uintptr_t>(this))) {
    // The compiler is not to think that nobody reads the mark.
    asm volatile("" : : "r"(this) : "memory");
  }
  ~FrameMark() {
    tag_ = 0;
    asm volatile("" : : "r"(this) : "memory");
  }
  FrameMark(const FrameMark&) = delete;
  FrameMark& operator=(const FrameMark&) = delete;

  // The function whose mark was at `mark`, an address that may be of anything by now, has called
  // the caller, directly or not. The caller may be the function that sets the next mark, or its
  // caller: what an abandoned call from the same depth left is in its own frame then, or below.
  TC_FAST_PATH static bool Lives(const FrameMark* mark) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(mark);
    return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < address && HasTag(address);
  }

 private:
  TC_SLOW_PATH static bool HasTag(uintptr_t address) {
    return IsReadable(address) && LoadRaw<uintptr_t>(address) == TagAt(address);
  }
  static constexpr uintptr_t TagAt(uintptr_t address) {
    return address ^ static_cast<uintptr_t>(0x9d5c81e07fb3a642);
  }

  // So much is read of it.
  alignas(8) uintptr_t tag_;
};

}  // namespace tcmalloc
