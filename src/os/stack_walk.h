// SPDX-License-Identifier: BSD-3-Clause
// A walk over a stack, from a frame outwards: which frames it writes, which it leaves out, and by
// what it goes from one to the next.
//
// Thread safety: any thread; signal handlers. Takes no lock and allocates nothing. Cost: see
// os/stack_trace.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/frame_registers.h"
#include "os/stack_trace.h"

namespace tcmalloc {

// What a walk writes. The frames to skip count after those that are left out.
struct StackWalkRequest {
  uintptr_t* frames;
  // Null: no sizes.
  int* sizes = nullptr;
  size_t max;
  size_t skip;
  // Leave out the allocator's frames: the innermost ones; all down to the outermost of the first
  // few.
  bool leaves_out_leading = false;
  bool leaves_out_callback = false;
  RuleCache cache = RuleCache::kUsed;
};

// Walks outwards from `first`. `interrupted`: a signal interrupted that frame. `begins_here`: the
// frame itself is written, too. Returns the number of frames written. Requires: method is not
// kNone; max > 0.
TC_OUT_OF_LINE size_t WalkStack(const FrameRegisters& first, bool interrupted, bool begins_here,
                                StackTraceMethod method, const StackWalkRequest& request);

}  // namespace tcmalloc
