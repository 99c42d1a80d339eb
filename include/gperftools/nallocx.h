/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that return the size of an object without allocating it. */
#ifndef GPERFTOOLS_NALLOCX_H_
#define GPERFTOOLS_NALLOCX_H_

#include <stddef.h>

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The only flag requests an object at a multiple of 2^la. */
#define MALLOCX_LG_ALIGN(la) ((int)(la))

/*
 * Return the bytes of an object for a request of `size` bytes; 0 if such a request always fails.
 * Both functions do the same; use tc_nallocx to get this library's result even if another loaded
 * library defines nallocx. Any thread may call them. Cost: some nanoseconds.
 */
PERFTOOLS_DLL_DECL size_t nallocx(size_t size, int flags);
PERFTOOLS_DLL_DECL size_t tc_nallocx(size_t size, int flags);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* GPERFTOOLS_NALLOCX_H_ */
