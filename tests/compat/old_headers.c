// SPDX-License-Identifier: BSD-3-Clause
// A C program that includes the headers by the names that they had before gperftools 2.0, as
// programs still do: Redis includes google/tcmalloc.h, and compiles only if its version is one that
// has tc_malloc_size.
#define _GNU_SOURCE
#include <google/heap-profiler.h>
#include <google/malloc_extension_c.h>
#include <google/malloc_hook_c.h>
#include <google/stacktrace.h>
#include <google/tcmalloc.h>
#include <string.h>

#include "../process/check.h"

#if TC_VERSION_MAJOR < 1 || (TC_VERSION_MAJOR == 1 && TC_VERSION_MINOR < 6)
#error "tc_malloc_size came with version 1.6"
#endif

static int calls;

static void OnNew(const void* object, size_t size) {
  CHECK(object != NULL && size >= 100);
  ++calls;
}

int main(void) {
  RequireLibraryUnderTest();
  int major = 0, minor = 0;
  const char* patch = NULL;
  CHECK(strcmp(tc_version(&major, &minor, &patch), TC_VERSION_STRING) == 0);
  CHECK(major == TC_VERSION_MAJOR && minor == TC_VERSION_MINOR);

  CHECK(MallocHook_AddNewHook(&OnNew));
  void* object = tc_malloc(100);
  CHECK(MallocHook_RemoveNewHook(&OnNew));
  CHECK(calls == 1);
  CHECK(object != NULL && tc_malloc_size(object) >= 100);
  CHECK(MallocExtension_GetAllocatedSize(object) == tc_malloc_size(object));
  tc_free(object);
  return 0;
}
