// SPDX-License-Identifier: BSD-3-Clause
// TC_OVERRIDE gives an entry point the C library's name as well; TC_OVERRIDE_OPERATOR does this for
// an operator new or delete, given by its declaration. A sanitizer brings its own malloc: builds
// with one define TCMALLOC_NO_OVERRIDE and have only the tc_ names.
//
// TC_OVERRIDE_INTERNAL is for the names by which glibc calls its own malloc. In other C libraries
// these names, if they exist, belong to the C library's own allocator, which must not be replaced.
#pragma once

#include <features.h>

#include "base/compiler.h"

#ifdef TCMALLOC_NO_OVERRIDE
#define TC_OVERRIDE(result, name, parameters, target)
#define TC_OVERRIDE_OPERATOR(target, ...)
#else
#define TC_OVERRIDE(result, name, parameters, target) \
  TC_EXPORT result name parameters noexcept TC_ALIAS(target);
#define TC_OVERRIDE_OPERATOR(target, ...) TC_REPLACEABLE __VA_ARGS__ TC_ALIAS(target);
#endif

#ifdef __GLIBC__
#define TC_OVERRIDE_INTERNAL(...) TC_OVERRIDE(__VA_ARGS__)
#else
#define TC_OVERRIDE_INTERNAL(...)
#endif

// The names of the entry points of C, for the two files that define these. The last ones are
// glibc's internal names for its own functions.
#define TC_OVERRIDE_C_NAMES                                                                  \
  TC_OVERRIDE(void*, malloc, (size_t), tc_malloc)                                            \
  TC_OVERRIDE(void, free, (void*), tc_free)                                                  \
  TC_OVERRIDE(void, free_sized, (void*, size_t), tc_free_sized)                              \
  TC_OVERRIDE(void, free_aligned_sized, (void*, size_t, size_t), tc_free_aligned_sized)      \
  TC_OVERRIDE(void, cfree, (void*), tc_cfree)                                                \
  TC_OVERRIDE(void*, calloc, (size_t, size_t), tc_calloc)                                    \
  TC_OVERRIDE(void*, realloc, (void*, size_t), tc_realloc)                                   \
  TC_OVERRIDE(void*, reallocarray, (void*, size_t, size_t), tc_reallocarray)                 \
  TC_OVERRIDE(void*, memalign, (size_t, size_t), tc_memalign)                                \
  TC_OVERRIDE(void*, aligned_alloc, (size_t, size_t), tc_aligned_alloc)                      \
  TC_OVERRIDE(int, posix_memalign, (void**, size_t, size_t), tc_posix_memalign)              \
  TC_OVERRIDE(void*, valloc, (size_t), tc_valloc)                                            \
  TC_OVERRIDE(void*, pvalloc, (size_t), tc_pvalloc)                                          \
  TC_OVERRIDE(size_t, malloc_usable_size, (void*), tc_malloc_size)                           \
  TC_OVERRIDE(size_t, malloc_size, (void*), tc_malloc_size)                                  \
  TC_OVERRIDE(size_t, nallocx, (size_t, int), tc_nallocx)                                    \
  TC_OVERRIDE_INTERNAL(void*, __libc_malloc, (size_t), tc_malloc)                            \
  TC_OVERRIDE_INTERNAL(void, __libc_free, (void*), tc_free)                                  \
  TC_OVERRIDE_INTERNAL(void, __libc_cfree, (void*), tc_cfree)                                \
  TC_OVERRIDE_INTERNAL(void*, __libc_calloc, (size_t, size_t), tc_calloc)                    \
  TC_OVERRIDE_INTERNAL(void*, __libc_realloc, (void*, size_t), tc_realloc)                   \
  TC_OVERRIDE_INTERNAL(void*, __libc_reallocarray, (void*, size_t, size_t), tc_reallocarray) \
  TC_OVERRIDE_INTERNAL(void*, __libc_memalign, (size_t, size_t), tc_memalign)                \
  TC_OVERRIDE_INTERNAL(void*, __libc_valloc, (size_t), tc_valloc)                            \
  TC_OVERRIDE_INTERNAL(void*, __libc_pvalloc, (size_t), tc_pvalloc)                          \
  TC_OVERRIDE_INTERNAL(int, __posix_memalign, (void**, size_t, size_t), tc_posix_memalign)
