// SPDX-License-Identifier: BSD-3-Clause
//
// The program of memory_cost_test.py, one mode per run; each prints one figure in bytes.
//   live COUNT SIZE    resident memory that COUNT objects of SIZE bytes add, all written to
//   burst COUNT SIZE   largest growth of resident memory from the second of ten rounds on; each
//                      round allocates and frees COUNT objects
//   sleepers COUNT WHAT  resident memory of the process while COUNT threads sleep: WHAT is 0 when
//                      they never allocated, 1 when each has allocated and freed ten objects of 16
//                      to 256 bytes, 2 when all caches have been flushed after that, 3 when free
//                      memory has been released as well
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
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

// This function of tcmalloc/tcmalloc.h is null on the C library's malloc.
size_t tcmalloc_flush_thread_caches(void) __attribute__((weak));
size_t tcmalloc_flush_central_caches(void) __attribute__((weak));

static pthread_barrier_t asleep, measured;

// Touches the pages of the stack that the allocator's slow paths use, in every mode. This is a
// function of its own, so that later calls have their frames there.
__attribute__((noinline)) static void TouchStack(void) {
  volatile char stack[16384];
  memset((char*)stack, 1, sizeof(stack));
}

static void* Sleeper(void* allocates) {
  TouchStack();
  if (allocates != NULL) {
    char* objects[10];
    for (int i = 0; i < 10; ++i) objects[i] = NewMarked(16 + (size_t)i * 240 / 9, 1);
    for (int i = 0; i < 10; ++i) Free(objects[i]);
  }
  pthread_barrier_wait(&asleep);
  pthread_barrier_wait(&measured);
  return NULL;
}

static size_t BytesWithSleepers(size_t count, size_t what) {
  pthread_t* threads = (pthread_t*)PointerArray(count);
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, 65536) == 0);
  CHECK(pthread_barrier_init(&asleep, NULL, (unsigned)count + 1) == 0);
  CHECK(pthread_barrier_init(&measured, NULL, (unsigned)count + 1) == 0);
  static char yes;
  for (size_t i = 0; i < count; ++i) {
    CHECK(pthread_create(&threads[i], &attributes, Sleeper, what > 0 ? &yes : NULL) == 0);
  }
  pthread_barrier_wait(&asleep);
  if (what >= 2) {
    CHECK(tcmalloc_flush_thread_caches != NULL && tcmalloc_flush_central_caches != NULL);
    tcmalloc_flush_thread_caches();
    tcmalloc_flush_central_caches();
  }
  if (what >= 3) malloc_trim(0);
  const size_t bytes = ResidentBytes();
  pthread_barrier_wait(&measured);
  for (size_t i = 0; i < count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  return bytes;
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 4);
  const size_t count = strtoul(argv[2], NULL, 10);
  const size_t size = strtoul(argv[3], NULL, 10);
  if (strcmp(argv[1], "sleepers") == 0) {
    printf("%zu\n", BytesWithSleepers(count, size));
    return 0;
  }
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
    // Measures at the peak and after: the round's peak stays resident until pages are released.
    const size_t now = ResidentBytes();
    if (round == 2) second = now;
    if (round > 2 && now > second && now - second > growth) growth = now - second;
  }
  printf("%zu\n", growth);
  return 0;
}
