// SPDX-License-Identifier: BSD-3-Clause
#include "os/stack_trace.h"

#include <ucontext.h>

#include <atomic>

#include "instruments/unwind/call_frame_cache.h"
#include "instruments/unwind/frame_registers.h"
#include "instruments/unwind/stack_walk.h"

namespace tcmalloc {
namespace {

// Written when the settings are read, and by tests; each walk reads it once. Relaxed, since no
// other data depends on it.
constinit std::atomic<StackTraceMethod> method{StackTraceMethod::kAuto};

size_t Trace(const FrameRegisters& first, bool interrupted, bool begins_here,
             const StackWalkRequest& request) {
  const StackTraceMethod chosen = method.load(std::memory_order_relaxed);
  if (request.max == 0 || chosen == StackTraceMethod::kNone) return 0;
  return WalkStack(first, interrupted, begins_here, chosen, request);
}

}  // namespace

void SetStackTraceMethod(StackTraceMethod chosen) {
  method.store(chosen, std::memory_order_relaxed);
}

const char* StackTraceMethodName() {
  switch (method.load(std::memory_order_relaxed)) {
    case StackTraceMethod::kAuto:
      return HasCallFramesOfAllObjects() ? "call frame information, otherwise frame pointers"
                                         : "frame pointers";
    case StackTraceMethod::kCallFrameInfo:
      return HasCallFramesOfAllObjects() ? "call frame information"
                                         : "call frame information (not found by this C library)";
    case StackTraceMethod::kFramePointers:
      return "frame pointers";
    case StackTraceMethod::kNone:
      return "none";
  }
  return "";
}

size_t GetStackTrace(uintptr_t* frames, size_t max, size_t skip) {
  FrameRegisters registers;
  const bool is_caller = CaptureFrameRegisters(&registers);
  return Trace(registers, false, is_caller, {.frames = frames, .max = max, .skip = skip});
}

size_t GetStackFrames(uintptr_t* frames, int* sizes, size_t max, size_t skip, const void* context) {
  FrameRegisters registers;
  bool begins_here = CaptureFrameRegisters(&registers);
  if (context != nullptr) {
    registers = FrameRegistersOf(*static_cast<const ucontext_t*>(context));
    begins_here = true;
  }
  return Trace(registers, context != nullptr, begins_here,
               {.frames = frames, .sizes = sizes, .max = max, .skip = skip});
}

size_t GetCallerStackTrace(uintptr_t* frames, size_t max, size_t skip, AllocatorFrames left_out,
                           size_t static_skip, RuleCache cache) {
  FrameRegisters registers;
  const bool is_caller = CaptureFrameRegisters(&registers);
  StackWalkRequest request{.frames = frames, .max = max, .skip = skip, .cache = cache};
  if (OwnObjectIsProgram()) {
    request.skip += static_skip;
  } else {
    request.leaves_out_leading = true;
    // The frames of this call are the innermost ones; those of the callback follow.
    request.leaves_out_callback = left_out == AllocatorFrames::kCallback;
  }
  return Trace(registers, false, is_caller, request);
}

}  // namespace tcmalloc
