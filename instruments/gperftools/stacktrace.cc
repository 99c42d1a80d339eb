// SPDX-License-Identifier: BSD-3-Clause
// The functions of gperftools/stacktrace.h.
#include "gperftools/stacktrace.h"

#include "os/stack_trace.h"

namespace {

__attribute__((always_inline)) inline int Trace(void** result, int* sizes, int max_depth,
                                                int skip_count, const void* context) {
  if (max_depth <= 0) return 0;
  // Skip the frame of the exported function that this is inlined into. A trace of interrupted code
  // does not have it.
  const size_t skip =
      context != nullptr ? 0 : 1 + static_cast<size_t>(skip_count > 0 ? skip_count : 0);
  const size_t depth = tcmalloc::GetStackFrames(reinterpret_cast<uintptr_t*>(result), sizes,
                                                static_cast<size_t>(max_depth), skip, context);
  // Prevents a tail call: the exported function must have the frame that is skipped.
  __asm__ volatile("");
  return static_cast<int>(depth);
}

}  // namespace

int GetStackTrace(void** result, int max_depth, int skip_count) {
  return Trace(result, nullptr, max_depth, skip_count, nullptr);
}

int GetStackFrames(void** result, int* sizes, int max_depth, int skip_count) {
  return Trace(result, sizes, max_depth, skip_count, nullptr);
}

int GetStackTraceWithContext(void** result, int max_depth, int skip_count, const void* uc) {
  return Trace(result, nullptr, max_depth, skip_count, uc);
}

int GetStackFramesWithContext(void** result, int* sizes, int max_depth, int skip_count,
                              const void* uc) {
  return Trace(result, sizes, max_depth, skip_count, uc);
}
