/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hooks: functions of the program that are called for every allocation and every free.
 *
 * New hooks are called after an allocation, with the object and the requested bytes. Delete hooks
 * are called before a free, with the object, which is never null. realloc calls both, also if the
 * object stays where it is. The thread that allocates or frees calls the hooks, in no particular
 * order. A hook may add and remove hooks. It may allocate and free: these operations call all hooks
 * again, itself included, so a hook that allocates must end this recursion. It must not throw from
 * the C functions.
 *
 * Any thread may add and remove hooks, but not in a signal handler. Every operation that begins
 * after a hook was added calls it, in all threads (on systems without membarrier(2), every
 * operation from a moment later on). After its removal, calls that have begun may still be running.
 * While there is a hook, every allocation and free takes the slow path, tens of nanoseconds more;
 * without hooks this costs nothing.
 */
#ifndef GPERFTOOLS_MALLOC_HOOK_C_H_
#define GPERFTOOLS_MALLOC_HOOK_C_H_

#include <stddef.h>
#include <sys/types.h>

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Hooks may call it. Stores up to `max_depth` return addresses of the code that allocates or frees,
 * without the allocator's frames, after skipping `skip_count`. Returns their number; 0 in
 * libtcmalloc_minimal.
 */
PERFTOOLS_DLL_DECL int MallocHook_GetCallerStackTrace(void** result, int max_depth, int skip_count);

/*
 * Add and Remove return 1 on success, and 0 if the hook is null. Add also returns 0 if there are 7
 * hooks already, Remove also if the hook was not added.
 */
typedef void (*MallocHook_NewHook)(const void* ptr, size_t size);
PERFTOOLS_DLL_DECL int MallocHook_AddNewHook(MallocHook_NewHook hook);
PERFTOOLS_DLL_DECL int MallocHook_RemoveNewHook(MallocHook_NewHook hook);

typedef void (*MallocHook_DeleteHook)(const void* ptr);
PERFTOOLS_DLL_DECL int MallocHook_AddDeleteHook(MallocHook_DeleteHook hook);
PERFTOOLS_DLL_DECL int MallocHook_RemoveDeleteHook(MallocHook_DeleteHook hook);

/*
 * Deprecated. These replace one more hook of each kind, and return the former one; null for none.
 */
PERFTOOLS_DLL_DECL MallocHook_NewHook MallocHook_SetNewHook(MallocHook_NewHook hook);
PERFTOOLS_DLL_DECL MallocHook_DeleteHook MallocHook_SetDeleteHook(MallocHook_DeleteHook hook);

/*
 * Hooks of system calls do not exist: all of these do nothing and return 0 or null, as in
 * gperftools since 2.11.
 */
typedef void (*MallocHook_PreMmapHook)(const void* start, size_t size, int protection, int flags,
                                       int fd, off_t offset);
PERFTOOLS_DLL_DECL int MallocHook_AddPreMmapHook(MallocHook_PreMmapHook hook);
PERFTOOLS_DLL_DECL int MallocHook_RemovePreMmapHook(MallocHook_PreMmapHook hook);
PERFTOOLS_DLL_DECL MallocHook_PreMmapHook MallocHook_SetPreMmapHook(MallocHook_PreMmapHook hook);

typedef void (*MallocHook_MmapHook)(const void* result, const void* start, size_t size,
                                    int protection, int flags, int fd, off_t offset);
PERFTOOLS_DLL_DECL int MallocHook_AddMmapHook(MallocHook_MmapHook hook);
PERFTOOLS_DLL_DECL int MallocHook_RemoveMmapHook(MallocHook_MmapHook hook);
PERFTOOLS_DLL_DECL MallocHook_MmapHook MallocHook_SetMmapHook(MallocHook_MmapHook hook);

typedef int (*MallocHook_MmapReplacement)(const void* start, size_t size, int protection, int flags,
                                          int fd, off_t offset, void** result);
PERFTOOLS_DLL_DECL int MallocHook_SetMmapReplacement(MallocHook_MmapReplacement hook);
PERFTOOLS_DLL_DECL int MallocHook_RemoveMmapReplacement(MallocHook_MmapReplacement hook);

typedef void (*MallocHook_MunmapHook)(const void* ptr, size_t size);
PERFTOOLS_DLL_DECL int MallocHook_AddMunmapHook(MallocHook_MunmapHook hook);
PERFTOOLS_DLL_DECL int MallocHook_RemoveMunmapHook(MallocHook_MunmapHook hook);
PERFTOOLS_DLL_DECL MallocHook_MunmapHook MallocHook_SetMunmapHook(MallocHook_MunmapHook hook);

typedef int (*MallocHook_MunmapReplacement)(const void* ptr, size_t size, int* result);
PERFTOOLS_DLL_DECL int MallocHook_SetMunmapReplacement(MallocHook_MunmapReplacement hook);
PERFTOOLS_DLL_DECL int MallocHook_RemoveMunmapReplacement(MallocHook_MunmapReplacement hook);

typedef void (*MallocHook_MremapHook)(const void* result, const void* old_addr, size_t old_size,
                                      size_t new_size, int flags, const void* new_addr);
PERFTOOLS_DLL_DECL int MallocHook_AddMremapHook(MallocHook_MremapHook hook);
PERFTOOLS_DLL_DECL int MallocHook_RemoveMremapHook(MallocHook_MremapHook hook);
PERFTOOLS_DLL_DECL MallocHook_MremapHook MallocHook_SetMremapHook(MallocHook_MremapHook hook);

typedef void (*MallocHook_PreSbrkHook)(ptrdiff_t increment);
PERFTOOLS_DLL_DECL int MallocHook_AddPreSbrkHook(MallocHook_PreSbrkHook hook);
PERFTOOLS_DLL_DECL int MallocHook_RemovePreSbrkHook(MallocHook_PreSbrkHook hook);
PERFTOOLS_DLL_DECL MallocHook_PreSbrkHook MallocHook_SetPreSbrkHook(MallocHook_PreSbrkHook hook);

typedef void (*MallocHook_SbrkHook)(const void* result, ptrdiff_t increment);
PERFTOOLS_DLL_DECL int MallocHook_AddSbrkHook(MallocHook_SbrkHook hook);
PERFTOOLS_DLL_DECL int MallocHook_RemoveSbrkHook(MallocHook_SbrkHook hook);
PERFTOOLS_DLL_DECL MallocHook_SbrkHook MallocHook_SetSbrkHook(MallocHook_SbrkHook hook);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* GPERFTOOLS_MALLOC_HOOK_C_H_ */
