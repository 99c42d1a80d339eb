// SPDX-License-Identifier: BSD-3-Clause
// A C program that uses gperftools' C interface: the headers are C, and the library brings no C++
// runtime into the process. It includes the headers by the names that they had before gperftools
// 2.0, as programs still do: Redis includes google/tcmalloc.h, and compiles only if its version is
// one that has tc_malloc_size. client.cc checks the results of the functions.
#define _GNU_SOURCE
#include <google/heap-profiler.h>
#include <google/malloc_extension_c.h>
#include <google/malloc_hook_c.h>
#include <google/stacktrace.h>
#include <google/tcmalloc.h>
#include <gperftools/nallocx.h>

#include "../process/check.h"

#if TC_VERSION_MAJOR < 1 || (TC_VERSION_MAJOR == 1 && TC_VERSION_MINOR < 6)
#error "tc_malloc_size came with version 1.6"
#endif

static size_t news, deletes;

static void OnNew(const void* object, size_t size) {
  CHECK(object != NULL && size > 0);
  ++news;
}
static void OnDelete(const void* object) {
  CHECK(object != NULL);
  ++deletes;
}

int main(void) {
  RequireLibraryUnderTest();
  CHECK(!IsMapped("libstdc++") && !IsMapped("libc++"));
  CHECK(MallocHook_AddNewHook(&OnNew) == 1 && MallocHook_AddDeleteHook(&OnDelete) == 1);
  Exercise(1);
  CHECK(news > 17 && deletes == news);
  CHECK(MallocHook_RemoveNewHook(&OnNew) == 1 && MallocHook_RemoveDeleteHook(&OnDelete) == 1);
  Exercise(2);
  CHECK(deletes == news);
  size_t in_use = 0;
  CHECK(MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &in_use) == 1);
  void* const object = tc_malloc(1000);
  size_t more = 0;
  CHECK(MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &more) == 1);
  // A debug library's properties count headers and red zones, too.
  const int debug = strstr(getenv("LIBRARY_UNDER_TEST"), "_debug") != NULL;
  CHECK(debug ? more > in_use + 1000 : more == in_use + tc_nallocx(1000, 0));
  CHECK(nallocx(1000, 0) == tc_malloc_size(object));
  tc_free(object);
  char text[20000];
  MallocExtension_GetStats(text, (int)sizeof(text));
  CHECK(strncmp(text, "----", 4) == 0);
  int blocks;
  size_t total;
  int histogram[kMallocExtensionHistogramSize];
  CHECK(MallocExtension_MallocMemoryStats(&blocks, &total, histogram) == 1);
  CHECK(debug ? total < in_use : total == in_use);
  CHECK(MallocExtension_GetOwnership(text) == MallocExtension_kNotOwned);
  MallocExtension_ReleaseFreeMemory();
  CHECK(strstr(tc_version(NULL, NULL, NULL), TC_VERSION_STRING) != NULL);
  return 0;
}
