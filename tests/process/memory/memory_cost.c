// SPDX-License-Identifier: BSD-3-Clause
//
// The program of memory_cost_test.py, one mode per run; each prints one figure in bytes.
//   live COUNT SIZE    resident memory that COUNT objects of SIZE bytes add, all written to
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../check.h"

// Returns memory for the program's own pointers, outside the heap and resident before anything is
// measured.
static char** PointerArray(size_t count) {
  void* array = mmap(NULL, count * sizeof(char*), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  CHECK(array != MAP_FAILED);
  memset(array, 0, count * sizeof(char*));
  return (char**)array;
}

static void AllocateAll(char** objects, size_t count, size_t size) {
  for (size_t i = 0; i < count; ++i) {
    objects[i] = (char*)Malloc(size);
    CHECK(objects[i] != NULL);
    memset(objects[i], 1, size);
  }
}

static void FreeAll(char** objects, size_t count) {
  for (size_t i = 0; i < count; ++i) Free(objects[i]);
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 4);
  const size_t count = strtoul(argv[2], NULL, 10);
  const size_t size = strtoul(argv[3], NULL, 10);
  char** objects = PointerArray(count);
  CHECK(strcmp(argv[1], "live") == 0);
  const size_t before = ResidentBytes();
  AllocateAll(objects, count, size);
  printf("%zu\n", ResidentBytes() - before);
  FreeAll(objects, count);
  return 0;
}
