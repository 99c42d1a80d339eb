// SPDX-License-Identifier: BSD-3-Clause
// Stack traces: the calling thread's stack as return addresses. instruments/unwind/stack_trace.cc
// walks the stack. The minimal library has instruments/no_instruments.cc instead, whose
// traces are empty.
//
// The functions may be called anywhere: before main, in signal handlers, on alternate stacks, in
// forked children, while another thread loads or unloads a library, while an exception is thrown.
// They allocate nothing, take no lock, keep errno, need less than 2 KiB of stack, and read only
// frames of functions that have not returned. If an address may not be a frame, they ask the OS
// before they read. Thread safety: any thread. Cost, in instructions: 300, plus 100 per frame whose
// rule is cached and whose object is never unloaded (the program, the C library), 560 per other
// frame with a cached rule, 1,800 per frame without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/compiler.h"

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
// The name of the current method.
const char* StackTraceMethodName();

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

}  // namespace tcmalloc
