// SPDX-License-Identifier: BSD-3-Clause
// FrameMark: shows whether a function of this thread is still running. A flag that the function
// sets and clears cannot show that: when a callee leaves by longjmp or an exception, the function
// never clears the flag.
//
// The mark is in the function's frame. A frame that the thread has left is at or below the
// innermost one, or has been overwritten. Two errors remain. A left frame counts as running while
// it is not overwritten and new calls have frames below it. On a second stack at higher addresses
// (of a coroutine or a signal handler) the frames of the first stack seem to be left. The caller
// must tolerate both.
//
// Requires that stacks grow downwards. Thread safety: only the thread of the frame may use it.
// Cost: one store to begin and one to end; a query costs a system call if the mark is above the
// caller's frame.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "base/address_range.h"
#include "base/compiler.h"
#include "os/errno_keeper.h"

namespace tcmalloc {

// False when the word at `address` is not readable memory. It also returns true if a sandbox
// forbids the call. The kernel loads 4 bytes and compares them with a value that memory hardly ever
// has; even if they are equal, the wait ends at once. Programs under valgrind make this call as
// well, so that it knows the call and prints nothing. Cost: a system call.
inline bool IsReadable(uintptr_t address) {
  constexpr uintptr_t kUnlikely = 0x9d5c81e0;
  struct {  // the system call's layout, even where time_t is longer
    long seconds = 0;
    long nanoseconds = 0;
  } const no_time;
  const ErrnoKeeper keeper;
  return syscall(SYS_futex, address & ~uintptr_t{3}, FUTEX_WAIT_PRIVATE, kUnlikely, &no_time,
                 nullptr, 0) != -1 ||
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

  // True if the function whose mark was at `mark` has called the caller, directly or not; the
  // memory there may hold anything by now. The caller may be the function that sets the next mark,
  // or that function's caller: then the remains of an abandoned call at the same depth are in its
  // own frame, or below it.
  TC_FAST_PATH static bool Lives(const FrameMark* mark) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(mark);
#if defined(__aarch64__)
    // The frame address is below the variables of a frame here; this is the frame's upper end.
    const uintptr_t frame_end = reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa());
    return frame_end <= address && HasTag(address);
#else
    return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < address && HasTag(address);
#endif
  }

 private:
  TC_SLOW_PATH static bool HasTag(uintptr_t address) {
    return IsReadable(address) && LoadRaw<uintptr_t>(address) == TagAt(address);
  }
  static constexpr uintptr_t TagAt(uintptr_t address) {
    return address ^ static_cast<uintptr_t>(0x9d5c81e07fb3a642);
  }

  uintptr_t tag_;
};

}  // namespace tcmalloc
