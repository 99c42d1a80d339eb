// SPDX-License-Identifier: BSD-3-Clause
// Releases all free memory of a fragmented heap: that must not split its mappings. Linux lets a
// process have 65,530 mappings (vm.max_map_count). With the argument "TOTAL_MIB" the heap has that
// many MiB of objects; run it where a mapping for each free range would be too many.
#define _GNU_SOURCE
#include <malloc.h>

#include "../check.h"

enum { kMiB = 1 << 20, kObjectBytes = 300000 };

extern void tcmalloc_set_memory_limit(int, size_t) __attribute__((weak));

static size_t CountMappings(void) {
  static char text[8 << 20];
  ReadFile("/proc/self/maps", text, sizeof(text));
  size_t lines = 0;
  for (const char* at = text; (at = strchr(at, '\n')) != NULL; ++at) ++lines;
  return lines;
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(tcmalloc_set_memory_limit != NULL);
  const size_t count = (argc > 1 ? strtoul(argv[1], NULL, 10) : 400) * kMiB / kObjectBytes;
  char** const objects = (char**)Malloc(count * sizeof(char*));
  for (size_t i = 0; i < count; ++i) objects[i] = NewMarked(kObjectBytes, (unsigned)i);
  const size_t mappings = CountMappings();
  const size_t resident = ResidentBytes();
  for (size_t i = 0; i < count; i += 2) FreeMarked(objects[i], kObjectBytes, (unsigned)i);
  // Releases by the limits, and on request.
  tcmalloc_set_memory_limit(1, 10 * kMiB);
  tcmalloc_set_memory_limit(0, 20 * kMiB);
  malloc_trim(0);
  CHECK(ResidentBytes() < resident / 10 * 6);
  const size_t after = CountMappings();
  dprintf(STDOUT_FILENO, "%zu holes, %zu mappings before, %zu after\n", count / 2, mappings, after);
  CHECK(after <= mappings + 5);
  tcmalloc_set_memory_limit(0, 0);
  tcmalloc_set_memory_limit(1, 0);
  for (size_t i = 0; i < count; i += 2) objects[i] = NewMarked(kObjectBytes, (unsigned)i);
  for (size_t i = 0; i < count; ++i) FreeMarked(objects[i], kObjectBytes, (unsigned)i);
  CHECK(CountMappings() <= mappings + 5);
  return 0;
}
