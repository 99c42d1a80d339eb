// SPDX-License-Identifier: BSD-3-Clause
//
// The program of thread_system_calls_test.py: COUNT threads, one after the other; each allocates
// and frees when ALLOCATES is 1, and does nothing when it is 0.
#define _GNU_SOURCE
#include <pthread.h>

#include "../check.h"

static void* RunThread(void* allocates) {
  if (allocates == NULL) return NULL;
  char* objects[100];
  for (size_t size = 8; size <= 8192; size *= 4) {
    for (int i = 0; i < 100; ++i) objects[i] = NewMarked(size, 1);
    for (int i = 0; i < 100; ++i) Free(objects[i]);
  }
  return NULL;
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 3);
  static char yes;
  const long count = strtol(argv[1], NULL, 10);
  for (long i = 0; i < count; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, RunThread, argv[2][0] == '1' ? &yes : NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  return 0;
}
