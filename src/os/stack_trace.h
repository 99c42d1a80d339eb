// SPDX-License-Identifier: BSD-3-Clause
// The calling thread's stack as return addresses. The minimal library has no_stack_trace.cc in this
// one's place, which knows of no frame.
//
// Called from anywhere: before main, in signal handlers, on alternate stacks, in forked children,
// while another thread loads or unloads a library, while an exception is thrown. It allocates
// nothing, takes no lock, keeps errno, needs less than 2 KiB of stack, and reads no memory but the
// frames of functions that have not returned; what might be none is asked of the system first.
// Cost, in instructions: 300 and 100 a frame whose rule is in the cache and whose object stays (the
// program, the C library), 560 another; 1,800 one that is not in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/compiler.h"
#include "base/tuning.h"

namespace tcmalloc {

inline constexpr size_t kMaxStackDepth = kTuning.stack_traces.max_depth;

// How the way from a frame to its caller's is found.
enum class StackTraceMethod : uint8_t {
  kAuto,           // call frame information, and frame pointers where code has none
  kCallFrameInfo,  // call frame information alone: the trace ends at code that has none
  kFramePointers,  // frame pointers, also where code may have used the register for something else
  kNone,           // all traces are empty
};

// For all threads, from now on.
void SetStackTraceMethod(StackTraceMethod method);
// The method that is used, in words.
const char* StackTraceMethodName();

// Writes up to `max` return addresses to `frames`, the caller's first, without the `skip` first
// ones of those, and returns how many. A frame that a signal interrupted is there as the address of
// the instruction that was to be next.
TC_OUT_OF_LINE size_t GetStackTrace(uintptr_t* frames, size_t max, size_t skip);

// The same with the sizes of the frames in bytes, 0 for unknown, unless `sizes` is null. With a
// signal handler's `context`, its third argument, unless that is null: of what the signal
// interrupted, beginning with the instruction that was to be next.
TC_OUT_OF_LINE size_t GetStackFrames(uintptr_t* frames, int* sizes, size_t max, size_t skip,
                                     const void* context);

// Traces for who called the allocator: without the frames of the allocator itself.
enum class AllocatorFrames : uint8_t {
  kLeading,  // the innermost ones, until there is one of the program's
  // All down to the outermost of the first few that are the allocator's: for a function that the
  // allocator called.
  kCallback,
};
// What a trace does with the cache of rules for frames (os/call_frame_cache.h), 128 KiB of which
// each frame may touch another page.
enum class RuleCache : uint8_t {
  kUsed,
  kLeftAlone,  // some microseconds for each frame: for traces that are seldom taken
};
// In a program that the library is linked into statically its frames cannot be told from others:
// then `static_skip` frames are left out, which is for the caller to know.
TC_OUT_OF_LINE size_t GetCallerStackTrace(uintptr_t* frames, size_t max, size_t skip,
                                          AllocatorFrames left_out, size_t static_skip,
                                          RuleCache cache = RuleCache::kUsed);

}  // namespace tcmalloc
