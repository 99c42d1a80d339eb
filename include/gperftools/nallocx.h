/* SPDX-License-Identifier: BSD-3-Clause */
/* The size that an object would have, without allocating it. */
#ifndef GPERFTOOLS_NALLOCX_H_
#define GPERFTOOLS_NALLOCX_H_

#include <stddef.h>

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* At a multiple of 2^la. The only flag there is. */
#define MALLOCX_LG_ALIGN(la) ((int)(la))

/*
 * The bytes that a request for `size` bytes gets; 0 when there is no such object. The two are the
 * same; the first may be another library's where that is loaded, too.
 */
PERFTOOLS_DLL_DECL size_t nallocx(size_t size, int flags);
PERFTOOLS_DLL_DECL size_t tc_nallocx(size_t size, int flags);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* GPERFTOOLS_NALLOCX_H_ */
