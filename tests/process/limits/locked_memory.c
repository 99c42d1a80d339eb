// SPDX-License-Identifier: BSD-3-Clause
//
// Tests a program that has locked all its memory, present and future. The OS may refuse to release
// such memory. Memory that the allocator believes to be zero must still be zero, and limits hold.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "../check.h"

enum { kMiB = 1 << 20, kObjects = 60 };

extern void tcmalloc_set_memory_limit(int, size_t) __attribute__((weak));

static void CheckZero(const char* object, size_t size) {
  CHECK(object != NULL);
  CheckMarked(object, size, 0);
}

// Writes memory, frees it, releases it as far as the OS allows, then requests it again as zero.
static void ReuseAsZero(void) {
  char* objects[kObjects];
  for (unsigned i = 0; i < kObjects; ++i) objects[i] = NewMarked(kMiB, i + 1);
  for (unsigned i = 0; i < kObjects; ++i) FreeMarked(objects[i], kMiB, i + 1);
  malloc_trim(0);
  char* const large = (char*)Calloc(1, 40 * kMiB);
  CheckZero(large, 40 * kMiB);
  for (unsigned i = 0; i < 10; ++i) {
    objects[i] = (char*)Calloc(kMiB, 1);
    CheckZero(objects[i], kMiB);
  }
  for (unsigned i = 0; i < 10; ++i) Free(objects[i]);
  Free(large);
}

// Allocates objects of `size` until that fails, and frees them. Returns their bytes.
static size_t UseUp(size_t size) {
  void** newest = NULL;
  size_t count = 0;
  for (;;) {
    errno = 0;
    void** const object = (void**)Malloc(size);
    if (object == NULL) break;
    memset(object, 0x55, size);
    *object = newest;
    newest = object;
    ++count;
  }
  CHECK(errno == ENOMEM);
  while (newest != NULL) {
    void** const next = (void**)*newest;
    Free(newest);
    newest = next;
  }
  return count * size;
}

static void* InThread(void* argument) {
  Exercise(5);
  return argument;
}

int main(void) {
  RequireLibraryUnderTest();
  Exercise(1);
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
    printf("SKIP: mlockall is not allowed: %s\n", strerror(errno));
    return 77;
  }
  Exercise(2);
  ReuseAsZero();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, InThread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  ReuseAsZero();

  CHECK(tcmalloc_set_memory_limit != NULL);
  // With a soft limit allocations succeed, however little is released.
  tcmalloc_set_memory_limit(1, 10 * kMiB);
  ReuseAsZero();
  tcmalloc_set_memory_limit(1, 0);
  // The hard limit is above the heap's present size, which may be all that it ever gets.
  const size_t limit = mallinfo2().arena + 40 * kMiB;
  tcmalloc_set_memory_limit(0, limit);
  const size_t first = UseUp(kMiB);
  CHECK(first <= limit);
  CHECK(first >= 32 * kMiB);
  const size_t second = UseUp(kMiB);
  CHECK(second >= first / 10 * 9);
  CHECK(UseUp(5000) >= first / 10 * 8);
  CHECK(UseUp(kMiB) >= first / 10 * 8);
  tcmalloc_set_memory_limit(0, 0);
  ReuseAsZero();
  Exercise(3);
  return 0;
}
