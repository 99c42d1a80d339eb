// SPDX-License-Identifier: BSD-3-Clause
// A library in C that allocates, frees and passes objects in both directions. Loaded with and
// without RTLD_DEEPBIND.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) char* PluginAllocate(size_t size, int fill) {
  char* object = malloc(size);
  if (object != NULL) memset(object, fill, size);
  return object;
}

__attribute__((visibility("default"))) char* PluginDuplicate(const char* text) {
  return strdup(text);
}

__attribute__((visibility("default"))) void PluginFree(void* object) { free(object); }

__attribute__((visibility("default"))) void* PluginResize(void* object, size_t size) {
  return realloc(object, size);
}

// Returns the malloc that this library calls.
__attribute__((visibility("default"))) void* PluginMalloc(void) {
  void* (*volatile function)(size_t) = malloc;
  return (void*)function;
}

// Allocates when it is loaded and frees when it is unloaded.
static char* kept;
__attribute__((constructor)) static void Load(void) { kept = PluginAllocate(12345, 0x11); }
__attribute__((destructor)) static void Unload(void) {
  for (int i = 0; i < 12345; ++i) {
    if (kept == NULL || kept[i] != 0x11) abort();
  }
  free(kept);
}
