// SPDX-License-Identifier: BSD-3-Clause
// A C program that uses gperftools' C interface: the headers are C, and the library brings no C++
// runtime into the process. client.cc checks the results of the functions.
#define _GNU_SOURCE
#include <gperftools/malloc_extension_c.h>
#include <gperftools/malloc_hook_c.h>
#include <gperftools/nallocx.h>
#include <gperftools/tcmalloc.h>

#include "../process/check.h"

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
