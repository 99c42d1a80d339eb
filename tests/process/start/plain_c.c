// SPDX-License-Identifier: BSD-3-Clause
// A single-threaded C program: the library must bring neither the C++ library nor the compiler's
// unwinder into it, start no thread and print nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>

#include "../check.h"

static void CheckProcess(void) {
  CHECK(!IsMapped("libstdc++"));
  CHECK(!IsMapped("libgcc_s"));
  CHECK(!IsMapped("libc++"));
  CHECK(NumThreads() == 1);
}

int main(void) {
  RequireLibraryUnderTest();
  CHECK(IsMapped("libc.so"));  // Shows that IsMapped works.
  CheckProcess();
  for (unsigned round = 0; round < 20; ++round) Exercise(round);
  malloc_trim(0);
  errno = 0;
  CHECK(Malloc(PTRDIFF_MAX) == NULL && errno == ENOMEM);
  char* line = NULL;
  size_t length = 0;
  FILE* file = fopen("/proc/self/status", "r");
  CHECK(file != NULL);
  while (getline(&line, &length, file) > 0) {
  }
  fclose(file);
  Free(line);
  CheckProcess();
  return 0;
}
