// SPDX-License-Identifier: BSD-3-Clause
// Pairs of an allocation and its release, for counting instructions.
//   hot_path real|stub PAIRS
// "real" calls malloc and free, "stub" two functions that do nothing, both from the same loop.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void* stub_malloc(size_t size);
void stub_free(void* p);

__attribute__((noinline)) static void Run(void* (*allocate)(size_t), void (*release)(void*),
                                          long pairs) {
  for (long i = 0; i < pairs; ++i) release(allocate(64));
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s real|stub PAIRS\n", argv[0]);
    return 2;
  }
  const long pairs = atol(argv[2]);
  if (strcmp(argv[1], "real") == 0) {
    Run(&malloc, &free, pairs);
  } else {
    Run(&stub_malloc, &stub_free, pairs);
  }
  return 0;
}
