// SPDX-License-Identifier: BSD-3-Clause
// The call stack of the calling thread. libtcmalloc has these functions, libtcmalloc_minimal does
// not. They may be called anywhere, also in signal handlers. All return the number of return
// addresses written.
#ifndef GPERFTOOLS_STACKTRACE_H_
#define GPERFTOOLS_STACKTRACE_H_

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL __attribute__((visibility("default")))
#endif

// Writes up to `max_depth` return addresses to `result`, innermost first. The first is the address
// in the caller of this function; the first `skip_count` are left out. With 1, a function gets the
// addresses in its callers.
PERFTOOLS_DLL_DECL int GetStackTrace(void** result, int max_depth, int skip_count);

// As GetStackTrace, but also stores the sizes of the frames in bytes, 0 for unknown.
PERFTOOLS_DLL_DECL int GetStackFrames(void** result, int* sizes, int max_depth, int skip_count);

// For signal handlers, with the handler's third argument as `uc`: the stack of the interrupted
// code, from the address of the interrupted instruction on. It does not contain the handler's
// frames, and ignores `skip_count`. If `uc` is null, they do the same as the functions above.
PERFTOOLS_DLL_DECL int GetStackTraceWithContext(void** result, int max_depth, int skip_count,
                                                const void* uc);
PERFTOOLS_DLL_DECL int GetStackFramesWithContext(void** result, int* sizes, int max_depth,
                                                 int skip_count, const void* uc);

#endif  // GPERFTOOLS_STACKTRACE_H_
