// SPDX-License-Identifier: BSD-3-Clause
#include "os/stack_trace.h"

namespace tcmalloc {

void SetStackTraceMethod(StackTraceMethod) {}
const char* StackTraceMethodName() { return "none (the minimal library has no stack traces)"; }

size_t GetStackTrace(uintptr_t*, size_t, size_t) { return 0; }

size_t GetStackFrames(uintptr_t*, int*, size_t, size_t, const void*) { return 0; }

size_t GetCallerStackTrace(uintptr_t*, size_t, size_t, AllocatorFrames, size_t, RuleCache) {
  return 0;
}

}  // namespace tcmalloc
