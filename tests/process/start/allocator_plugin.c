// SPDX-License-Identifier: BSD-3-Clause
// A plugin that a static library of the allocator is linked into, hidden from the program.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

size_t tcmalloc_flush_this_thread_cache(void);

// Allocates and frees objects of many sizes. False unless the allocator of this plugin serves it.
int PluginUse(void) {
  void* (*volatile allocate)(size_t) = malloc;
  char* objects[500];
  for (int i = 0; i < 500; ++i) {
    objects[i] = allocate((size_t)i * 40 + 1);
    if (objects[i] == NULL) return 0;
    memset(objects[i], i, (size_t)i * 40 + 1);
  }
  int right = 1;
  for (int i = 0; i < 500; ++i) {
    right &= objects[i][i * 40] == (char)i;
    free(objects[i]);
  }
  return right && tcmalloc_flush_this_thread_cache() > 0;
}

// Leaves objects in the thread's cache, which the allocator empties when the thread ends.
void PluginFillCache(void) {
  void* (*volatile allocate)(size_t) = malloc;
  for (size_t size = 16; size < 4096; size += 16) free(allocate(size));
}

char* PluginNew(size_t size) { return malloc(size); }
void PluginDelete(char* object) { free(object); }
