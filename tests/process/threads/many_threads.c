// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a thousand threads at once. Each allocates, waits until all have allocated, frees its
// neighbour's objects, allocates again and exits.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "../check.h"

enum { kThreads = 1000, kObjects = 20, kStackBytes = 64 * 1024 };

static pthread_barrier_t everyone;
static char* objects[kThreads][kObjects];

static size_t SizeOf(int object) { return (size_t)16 << object % 10; }

static void* RunThread(void* argument) {
  const int self = (int)(size_t)argument;
  const int neighbour = (self + 1) % kThreads;
  for (int i = 0; i < kObjects; ++i) objects[self][i] = NewMarked(SizeOf(i), (unsigned)self);
  pthread_barrier_wait(&everyone);
  for (int i = 0; i < kObjects; ++i) {
    FreeMarked(objects[neighbour][i], SizeOf(i), (unsigned)neighbour);
  }
  Exercise((unsigned)self);
  pthread_barrier_wait(&everyone);
  return NULL;
}

int main(void) {
  RequireLibraryUnderTest();
  static pthread_t threads[kThreads];
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  // The program provides the stacks, and releases them after each round. The C library would keep
  // 10 MiB of stacks that threads have touched to different depths: 4 KiB more in each of 640
  // stacks are half the bound.
  const size_t stack_bytes = (size_t)kThreads * kStackBytes;
  char* stacks = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(stacks != MAP_FAILED);
  size_t in_use = 0;
  size_t resident = 0;
  for (int round = 0; round < 3; ++round) {
    CHECK(pthread_barrier_init(&everyone, NULL, kThreads) == 0);
    for (size_t i = 0; i < kThreads; ++i) {
      CHECK(pthread_attr_setstack(&attributes, stacks + i * kStackBytes, kStackBytes) == 0);
      CHECK(pthread_create(&threads[i], &attributes, RunThread, (void*)i) == 0);
    }
    for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(pthread_barrier_destroy(&everyone) == 0);
    CHECK(madvise(stacks, stack_bytes, MADV_DONTNEED) == 0);
    malloc_trim(0);
    const size_t in_use_now = mallinfo2().uordblks;
    const size_t resident_now = ResidentBytes();
    dprintf(STDOUT_FILENO, "round %d: %zu KiB in use, %zu KiB resident\n", round, in_use_now >> 10,
            resident_now >> 10);
    // The first round leaves thread caches, and the C library's records of threads.
    if (round == 0) {
      in_use = in_use_now;
      resident = resident_now;
    }
    CHECK(in_use_now <= in_use + 65536);
    CHECK(resident_now <= resident + (4 << 20));
  }
  return 0;
}
