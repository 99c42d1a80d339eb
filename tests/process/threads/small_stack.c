// SPDX-License-Identifier: BSD-3-Clause
// Threads with the smallest stack that the OS allows allocate, free and exit: no entry point may
// want more than a few KiB of stack, not even at a thread's first use or when it empties its cache.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>

#include "../check.h"

extern size_t tcmalloc_stats_text(int, char*, size_t) __attribute__((weak));
extern size_t tcmalloc_stats_json(char*, size_t) __attribute__((weak));
extern size_t tcmalloc_stats_openmetrics(char*, size_t) __attribute__((weak));

static FILE* nowhere;

static void* AllocateEverything(void* argument) {
  const size_t number = (size_t)argument;
  // The first operation differs from thread to thread.
  if (number % 4 == 0) Free(Calloc(number, 10));
  if (number % 4 == 1) Free(memalign(4096, number));
  if (number % 4 == 2) Free(Realloc(NULL, 1 << 20));
  if (number % 4 == 3) malloc_trim(0);
  for (size_t size = 1; size <= 300 * 1024; size += size / 8 + 1) {
    char* object = NewMarked(size, 0x81);
    object = (char*)Realloc(object, size + size / 2);
    CHECK(object != NULL);
    FreeMarked(object, size, 0x81);
    void* aligned = memalign(256, size);
    CHECK(aligned != NULL);
    Free(aligned);
  }
  for (size_t size = 1 << 20; size <= 64 << 20; size *= 4) {
    char* object = (char*)Calloc(1, size);
    CHECK(object != NULL && object[0] == 0 && object[size - 1] == 0);
    object = (char*)Realloc(object, size * 2);
    CHECK(object != NULL);
    Free(object);
  }
  errno = 0;
  CHECK(Malloc(PTRDIFF_MAX) == NULL && errno == ENOMEM);
  // Allocates enough objects of one size to overflow every list.
  enum { kMany = 20000 };
  char** objects = (char**)Malloc(kMany * sizeof(char*));
  CHECK(objects != NULL);
  for (int i = 0; i < kMany; ++i) objects[i] = NewMarked(100, 0x82);
  for (int i = 0; i < kMany; ++i) FreeMarked(objects[i], 100, 0x82);
  Free(objects);
  mallinfo2();
  static char text[1 << 17];
  CHECK(tcmalloc_stats_text(2, text, sizeof(text)) < sizeof(text));
  CHECK(tcmalloc_stats_json(text, sizeof(text)) < sizeof(text));
  CHECK(tcmalloc_stats_openmetrics(text, sizeof(text)) < sizeof(text));
  CHECK(malloc_info(0, nowhere) == 0);
  if (number == 0) malloc_stats();
  malloc_trim(0);
  Exercise(8);
  return NULL;
}

int main(void) {
  RequireLibraryUnderTest();
  nowhere = fopen("/dev/null", "w");
  CHECK(nowhere != NULL);
  CHECK(fputs("The buffer of the stream is there.\n", nowhere) >= 0);
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
  CHECK(PTHREAD_STACK_MIN == 16384);
  for (size_t round = 0; round < 10; ++round) {
    pthread_t threads[3];
    for (size_t i = 0; i < 3; ++i) {
      CHECK(pthread_create(&threads[i], &attributes, AllocateEverything, (void*)(round * 3 + i)) ==
            0);
    }
    for (size_t i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  }
  return 0;
}
