// SPDX-License-Identifier: BSD-3-Clause
//
// The calling thread's stack. In libtcmalloc, not in libtcmalloc_minimal. All functions may be
// called anywhere, signal handlers included.
#ifndef GPERFTOOLS_STACKTRACE_H_
#define GPERFTOOLS_STACKTRACE_H_

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL __attribute__((visibility("default")))
#endif

// Writes up to `max_depth` return addresses to `result`, beginning with the one in the caller of
// this function, `skip_count` frames left out, and returns how many: a function that calls it with
// 1 gets the functions that it was called by, the innermost first.
PERFTOOLS_DLL_DECL int GetStackTrace(void** result, int max_depth, int skip_count);

// Also how large the frames are, in bytes, and 0 where that is not known.
PERFTOOLS_DLL_DECL int GetStackFrames(void** result, int* sizes, int max_depth, int skip_count);

// For signal handlers, with the third argument of the handler as `uc`: the stack of what was
// interrupted, beginning with the address of the interrupted instruction; the handler's frames are
// not there, and `skip_count` leaves out none. With null the same as without.
PERFTOOLS_DLL_DECL int GetStackTraceWithContext(void** result, int max_depth, int skip_count,
                                                const void* uc);
PERFTOOLS_DLL_DECL int GetStackFramesWithContext(void** result, int* sizes, int max_depth,
                                                 int skip_count, const void* uc);

#endif  // GPERFTOOLS_STACKTRACE_H_
