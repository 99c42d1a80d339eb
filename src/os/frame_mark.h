// SPDX-License-Identifier: BSD-3-Clause
// FrameMark: tells whether a function of this thread is still running. A flag that the function
// sets and clears cannot: when a callee leaves by longjmp or an exception, the function never
// clears it.
//
// The mark is in the function's frame. A frame that the thread has left is at or below the
// innermost one, or has been overwritten. Two errors remain. A left frame that was not overwritten
// and has deeper calls below it again counts as running until one of that changes. On a second
// stack at higher addresses (of a coroutine or a signal handler) the frames of the first stack seem
// to be left. The caller must tolerate both.
//
// Requires that stacks grow downwards. Thread safety: only the thread of the frame. Cost: one store
// to begin and one to end; a query costs a system call if the mark is above the caller's frame.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "base/compiler.h"
#include "os/errno_keeper.h"
#include "os/raw_memory.h"

namespace tcmalloc {

// False when the 8 bytes at `address` are not readable memory. True, too, where a sandbox forbids
// the call. The kernel copies a signal set from the address before it notices that the operation is
// invalid. Cost: a system call.
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
    // Keeps the compiler from removing the mark as unused.
    asm volatile("" : : "r"(this) : "memory");
  }
  ~FrameMark() {
    tag_ = 0;
    asm volatile("" : : "r"(this) : "memory");
  }
  FrameMark(const FrameMark&) = delete;
  FrameMark& operator=(const FrameMark&) = delete;

  // The function whose mark was at `mark`, an address that may hold anything by now, has called the
  // caller, directly or not. The caller may be the function that sets the next mark, or that
  // function's caller: the remains of an abandoned call from the same depth are then in its own
  // frame, or below.
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

  // IsReadable checks 8 bytes.
  alignas(8) uintptr_t tag_;
};

}  // namespace tcmalloc
