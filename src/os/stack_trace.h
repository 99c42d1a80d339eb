// SPDX-License-Identifier: BSD-3-Clause
// The calling thread's stack: traces of it, and marks in its frames (FrameMark).
//
// Traces are return addresses. instruments/unwind/stack_trace.cc walks the stack. The minimal
// library has instruments/no_instruments.cc instead, whose traces are empty.
//
// The functions may be called anywhere: before main, in signal handlers, on alternate stacks, in
// forked children, while another thread loads or unloads a library, while an exception is thrown.
// They allocate nothing, take no lock, keep errno, need less than 2 KiB of stack, and read only
// frames of functions that have not returned. If an address may not be a frame, they ask the OS
// before they read. Thread safety: any thread. Cost, in instructions: 300, plus 100 per frame whose
// rule is cached and whose object is never unloaded (the program, the C library), 560 per other
// frame with a cached rule, 1,800 per frame without.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/address_range.h"
#include "base/compiler.h"
#include "os/errno_keeper.h"

namespace tcmalloc {

// The most return addresses. Traces are on the stack: 1 KiB.
inline constexpr size_t kMaxStackDepth = 128;

// The methods by which a walk finds the caller's frame.
enum class StackTraceMethod : uint8_t {
  kAuto,           // call frame information; frame pointers if code has none
  kCallFrameInfo,  // call frame information alone: the trace ends at code that has none
  kFramePointers,  // frame pointers, even where code may use the register for other values
  kNone,           // all traces are empty
};

// Sets the method for all threads.
void SetStackTraceMethod(StackTraceMethod method);

// Writes up to `max` return addresses to `frames`, the caller's first, after skipping `skip`, and
// returns how many it wrote. A frame that a signal interrupted has the address of the next
// instruction instead.
TC_OUT_OF_LINE size_t GetStackTrace(uintptr_t* frames, size_t max, size_t skip);

// As GetStackTrace, but also writes the sizes of the frames in bytes, 0 for unknown, unless `sizes`
// is null. If `context` is the third argument of a signal handler, the trace is that of the
// interrupted code, and begins with its next instruction.
TC_OUT_OF_LINE size_t GetStackFrames(uintptr_t* frames, int* sizes, size_t max, size_t skip,
                                     const void* context);

// Which frames of the allocator a trace of its caller omits.
enum class AllocatorFrames : uint8_t {
  kLeading,  // the innermost ones, up to the first frame of the program
  // All frames up to the allocator's outermost one among the first few frames: for functions that
  // the allocator calls.
  kCallback,
};
// Whether a trace uses the cache of rules (instruments/unwind/call_frame_cache.h): 128 KiB. Each
// frame may touch another page of it.
enum class RuleCache : uint8_t {
  kUsed,
  kUnused,  // for rare traces: some microseconds per frame
};
// A trace without the allocator's frames. In a statically linked program these frames cannot be
// distinguished from others, so the trace omits `static_skip` frames instead.
TC_OUT_OF_LINE size_t GetCallerStackTrace(uintptr_t* frames, size_t max, size_t skip,
                                          AllocatorFrames left_out, size_t static_skip,
                                          RuleCache cache = RuleCache::kUsed);

// An address inside the call instruction before `return_address`. The return address itself may
// belong to the next function.
constexpr uintptr_t CallBefore(uintptr_t return_address) {
  return return_address == 0 ? 0 : return_address - 1;
}

// A hash of a stack, for tables that have each stack once.
constexpr uint64_t HashOfStack(const uintptr_t* frames, size_t depth) {
  uint64_t hash = depth;
  for (size_t i = 0; i < depth; ++i) {
    hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

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
