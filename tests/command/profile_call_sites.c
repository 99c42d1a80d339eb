// SPDX-License-Identifier: BSD-3-Clause
// Call sites of known names in C, and one in the C library. Says "ready" and waits for the end of
// its input. profile_test.py knows the names.
#include <stdio.h>
#include <stdlib.h>

static void* volatile kept[4];

__attribute__((noinline)) static void Inner(int i, size_t bytes) { kept[i] = malloc(bytes); }

// This function has a frame whose size only its own call frame information gives.
__attribute__((noinline)) static void Outer(int i, size_t bytes) {
  volatile char space[1000];
  space[bytes % sizeof(space)] = 1;
  Inner(i, bytes);
  space[i] = 2;
}

__attribute__((noinline)) static int Compare(const void* a, const void* b) {
  if (kept[1] == NULL) kept[1] = malloc((size_t)4 << 20);
  return *(const int*)a - *(const int*)b;
}

int main(void) {
  int numbers[] = {3, 1, 2};
  Outer(0, (size_t)3 << 20);
  qsort(numbers, 3, sizeof(numbers[0]), &Compare);
  puts("ready");
  fflush(stdout);
  getchar();
  return 0;
}
