// SPDX-License-Identifier: BSD-3-Clause
//
// A program that allocates and frees large objects of random lengths, at most 500 MB at a time,
// and touches none: neither its address space nor the library's metadata grows without bound. With
// NAME=VALUE as argument the program runs with that variable in its environment.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "../check.h"

enum { kMaxObjects = 4096, kAllocations = 20000 };

static uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
static uint64_t Random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// Returns a figure of /proc/self/status in MiB.
static size_t Status(const char* name) {
  FILE* const file = fopen("/proc/self/status", "r");
  CHECK(file != NULL);
  char line[256];
  size_t kib = 0;
  while (fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) kib = strtoul(line + strlen(name), NULL, 10);
  }
  fclose(file);
  return kib / 1024;
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  if (argc > 1 && getenv("LARGE_OBJECTS_RUNS") == NULL) {
    CHECK(putenv(argv[1]) == 0 && setenv("LARGE_OBJECTS_RUNS", "1", 1) == 0);
    execl("/proc/self/exe", argv[0], argv[1], (char*)NULL);
    CHECK(0);
  }
  static char* objects[kMaxObjects];
  static size_t sizes[kMaxObjects];
  const size_t max_live = (size_t)500 << 20;
  size_t live = 0;
  size_t n = 0;
  const size_t before = Status("VmSize:");
  for (int i = 0; i < kAllocations; ++i) {
    const size_t most = (size_t)400 << 20;
    const size_t usual = most / 8;
    const size_t size = ((size_t)256 << 10) + 1 + Random() % (Random() % 4 == 0 ? most : usual);
    while (n > 0 && (live + size > max_live || n == kMaxObjects)) {
      const size_t k = Random() % n;
      Free(objects[k]);
      live -= sizes[k];
      --n;
      objects[k] = objects[n];
      sizes[k] = sizes[n];
    }
    objects[n] = Malloc(size);
    CHECK(objects[n] != NULL);
    sizes[n++] = size;
    live += size;
  }
  const size_t space = Status("VmSize:") - before;
  printf("%zu MiB of address space, %zu MiB resident\n", space, Status("VmRSS:"));
  // Best fit in one list of free memory needs 1.1 to 1.5 GiB, depending on the seed.
  CHECK(space <= 2048);
  CHECK(Status("VmRSS:") <= 24);
  return 0;
}
