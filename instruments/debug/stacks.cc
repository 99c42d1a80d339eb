// SPDX-License-Identifier: BSD-3-Clause

#include "instruments/debug/allocation.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/log.h"
#include "os/stack_trace.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// The most return addresses that are kept for each call that allocates or frees.
constexpr size_t kDepth = 24;
static_assert(kDepth <= kMaxStackDepth);
// In a statically linked program these frames are left out: RecordCaller, the function that calls
// it, and the entry point.
constexpr size_t kStaticSkip = 3;

}  // namespace

const CallStack* RecordCaller(uintptr_t) {
  uintptr_t frames[kDepth];
  const size_t depth =
      GetCallerStackTrace(frames, kDepth, 0, AllocatorFrames::kLeading, kStaticSkip);
  return depth == 0 ? nullptr : RecordStack(frames, depth);
}

void WriteStack(const uintptr_t* frames, size_t depth, bool names) {
  WriteStackToStderr(frames, depth, names, GlobalHeap().virtual_memory);
}

void WriteCurrentStack(const char* heading, bool names) {
  uintptr_t frames[kDepth];
  const size_t depth =
      GetCallerStackTrace(frames, kDepth, 0, AllocatorFrames::kLeading, kStaticSkip);
  if (depth == 0) return;
  WriteToStderr(heading);
  WriteStack(frames, depth, names);
}

}  // namespace tcmalloc
