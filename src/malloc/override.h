// SPDX-License-Identifier: BSD-3-Clause
// TC_OVERRIDE: a second name, that of the C library's function, for one of our entry points. Builds with a sanitizer,
// which brings its own malloc, define TCMALLOC_NO_OVERRIDE and have the tc_ names only.
#pragma once

#include "base/compiler.h"

#ifdef TCMALLOC_NO_OVERRIDE
#define TC_OVERRIDE(result, name, parameters, target)
#else
#define TC_OVERRIDE(result, name, parameters, target) \
  TC_EXPORT result name parameters noexcept __attribute__((alias(#target)));
#endif
