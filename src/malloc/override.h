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
