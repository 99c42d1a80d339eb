/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap profiler: while it runs, it records every allocation and every free of the process with
 * the call site. Only the full library has it (-ltcmalloc, not -ltcmalloc_minimal). The environment
 * variable HEAPPROFILE starts it without a change to the program; docs/heap-profiler.md describes
 * that, the files and the cost.
 *
 * Any thread may call these functions at any time, but not from a signal handler.
 */
#ifndef GPERFTOOLS_HEAP_PROFILER_H_
#define GPERFTOOLS_HEAP_PROFILER_H_

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Starts the profiler, unless it runs. Files are named PREFIX.0001.heap and so on; numbers continue
 * after a restart. Profiles do not contain objects that were allocated before the start. Does
 * nothing if `prefix` is null.
 */
PERFTOOLS_DLL_DECL void HeapProfilerStart(const char* prefix);

/* Returns 1 while the profiler runs, else 0. */
PERFTOOLS_DLL_DECL int IsHeapProfilerRunning(void);

/* Stops the profiler if it runs, and discards its records. Writes no file. */
PERFTOOLS_DLL_DECL void HeapProfilerStop(void);

/*
 * Writes a profile file now, and a line with the reason and the file's name on stderr. Does nothing
 * unless the profiler runs.
 */
PERFTOOLS_DLL_DECL void HeapProfilerDump(const char* reason);

/*
 * Returns the profile that HeapProfilerDump would write, as a string that the caller frees. The
 * string is empty unless the profiler runs; null if there is no memory.
 */
PERFTOOLS_DLL_DECL char* GetHeapProfile(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* GPERFTOOLS_HEAP_PROFILER_H_ */
