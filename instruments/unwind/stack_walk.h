// SPDX-License-Identifier: BSD-3-Clause
// Walks a stack from a frame outwards. It decides which frames to record or omit, and by which
// method it finds the next frame.
//
// Thread safety: any thread; signal handlers. Takes no lock and allocates nothing. Cost: see
// os/stack_trace.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "instruments/unwind/frame_registers.h"
#include "os/stack_trace.h"

namespace tcmalloc {

// The output of a walk. `skip` counts frames that are not left out by the flags.
struct StackWalkRequest {
  uintptr_t* frames;
  // Null if sizes are not wanted.
  int* sizes = nullptr;
  size_t max;
  size_t skip;
  // Omit frames of the allocator: the first flag omits the innermost ones, the second all up to the
  // allocator's outermost one among the first few frames.
  bool leaves_out_leading = false;
  bool leaves_out_callback = false;
  RuleCache cache = RuleCache::kUsed;
};

// Walks outwards from `first`. `interrupted` is true if a signal interrupted that frame. With
// `begins_here` the frame itself is recorded, too. Returns the number of frames recorded. Requires:
// method is not kNone; max > 0.
TC_OUT_OF_LINE size_t WalkStack(const FrameRegisters& first, bool interrupted, bool begins_here,
                                StackTraceMethod method, const StackWalkRequest& request);

}  // namespace tcmalloc
