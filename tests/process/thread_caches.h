// SPDX-License-Identifier: BSD-3-Clause
//
// Counts threads with a cache, for programs that do not know the allocator. C and C++; needs
// _GNU_SOURCE.
#pragma once

#include <malloc.h>

#include "check.h"

// Returns the number in malloc_info. Only one thread may call it at a time. Allocates, and frees
// what it allocated.
static inline size_t ThreadCaches(void) {
  static const char kBefore[] = "<total type=\"fast\" count=\"";
  static char text[65536];
  FILE* out = fmemopen(text, sizeof(text), "w");
  CHECK(out != NULL);
  CHECK(malloc_info(0, out) == 0);
  CHECK(fclose(out) == 0);
  const char* found = strstr(text, kBefore);
  CHECK(found != NULL);
  return strtoul(found + sizeof(kBefore) - 1, NULL, 10);
}

// The function of tcmalloc/tcmalloc.h with this name.
typedef size_t (*FlushFunction)(void);
static inline FlushFunction FindFlushFunction(const char* name) {
  void* function = dlsym(RTLD_DEFAULT, name);
  CHECK(function != NULL);
  return (FlushFunction)function;
}
