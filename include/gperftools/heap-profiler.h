/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap profiler: while it runs, every allocation and every free of the process is recorded with
 * its call site. It is in the full library only (-ltcmalloc, not -ltcmalloc_minimal). The
 * environment variable HEAPPROFILE starts it without a change to the program; docs/heap-profiler.md
 * describes that, and the files.
 *
 * All functions may be called by any thread at any time.
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
 * Starts it, unless it runs. Files are named PREFIX.0001.heap and so on; the numbers go on where it
 * is started again. Objects that exist already are not in the profiles.
 */
PERFTOOLS_DLL_DECL void HeapProfilerStart(const char* prefix);

/* 1 while it runs, else 0. */
PERFTOOLS_DLL_DECL int IsHeapProfilerRunning(void);

/* Stops it, if it runs, and forgets what was recorded. Writes no file. */
PERFTOOLS_DLL_DECL void HeapProfilerStop(void);

/* Writes a file now. The reason goes to stderr with its name. Does nothing while it does not run.
 */
PERFTOOLS_DLL_DECL void HeapProfilerDump(const char* reason);

/*
 * What HeapProfilerDump would write, as a string that the caller frees; an empty one while it does
 * not run, null when there is no memory.
 */
PERFTOOLS_DLL_DECL char* GetHeapProfile(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* GPERFTOOLS_HEAP_PROFILER_H_ */
