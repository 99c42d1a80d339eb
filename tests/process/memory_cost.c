// SPDX-License-Identifier: BSD-3-Clause
//
// What memory_cost_test.py measures, one mode per run; each prints one figure in bytes.
//   once               resident memory of a program that allocates one object
//   live COUNT SIZE    resident memory that COUNT objects of SIZE bytes add, all written to
//   burst COUNT SIZE   largest growth of resident memory from the second of ten rounds on, each of
//                      which allocates and frees COUNT objects
#define _GNU_SOURCE
#include <sys/mman.h>

#include "check.h"

// Memory for the program's own pointers, outside the heap and resident before anything is measured.
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
  if (argc == 2 && strcmp(argv[1], "once") == 0) {
    char* object = NewMarked(100, 1);
    printf("%zu\n", ResidentBytes());
    Free(object);
    return 0;
  }
  CHECK(argc == 4);
  const size_t count = strtoul(argv[2], NULL, 10);
  const size_t size = strtoul(argv[3], NULL, 10);
  char** objects = PointerArray(count);
  if (strcmp(argv[1], "live") == 0) {
    const size_t before = ResidentBytes();
    AllocateAll(objects, count, size);
    printf("%zu\n", ResidentBytes() - before);
    FreeAll(objects, count);
    return 0;
  }
  CHECK(strcmp(argv[1], "burst") == 0);
  size_t second = 0;
  size_t growth = 0;
  for (int round = 1; round <= 10; ++round) {
    AllocateAll(objects, count, size);
    FreeAll(objects, count);
    // At its fullest and after: the round's peak is what stays resident until pages are released.
    const size_t now = ResidentBytes();
    if (round == 2) second = now;
    if (round > 2 && now > second && now - second > growth) growth = now - second;
  }
  printf("%zu\n", growth);
  return 0;
}
