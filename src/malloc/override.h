// SPDX-License-Identifier: BSD-3-Clause
// TC_OVERRIDE: a second name, that of the C library's function, for one of our entry points;
// TC_OVERRIDE_OPERATOR: the same for an operator new or delete, given by its declaration. Builds
// with a sanitizer, which brings its own malloc, define TCMALLOC_NO_OVERRIDE and have the tc_ names
// only.
//
// TC_OVERRIDE_INTERNAL: a name by which the C library calls its own malloc. Other C libraries than
// glibc have such names for an allocator that is to stay theirs, beside the program's.
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
