// SPDX-License-Identifier: BSD-3-Clause
// probes FILE: allocates and frees large objects, which are all sampled, and writes their addresses
// to the file.
#define _GNU_SOURCE
#include "../check.h"

enum { kObjects = 3, kBytes = 3 << 20 };

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 2);
  FILE* const out = fopen(argv[1], "we");
  CHECK(out != NULL);
  void* objects[kObjects];
  for (int i = 0; i < kObjects; ++i) {
    objects[i] = Malloc(kBytes + i);
    fprintf(out, "alloc %p %d\n", objects[i], kBytes + i);
  }
  for (int i = 0; i < kObjects; ++i) {
    fprintf(out, "free %p\n", objects[i]);
    Free(objects[i]);
  }
  CHECK(fclose(out) == 0);
  return 0;
}
