// SPDX-License-Identifier: BSD-3-Clause
// A program that stops where debugging_test.py looks at its heap with a debugger.
#define _GNU_SOURCE

#include <malloc.h>
#include <stdlib.h>

#include "../check.h"

enum { kSize = 100, kNumKept = 10, kNumMany = 4000 };

// The debugger reads these variables.
void* in_use;
void* in_thread_cache;
void* in_central_list;
void* in_other_thread;
void* large;
void* many[kNumMany];

static pthread_barrier_t barrier;

void __attribute__((noinline)) LookAtHeap(void) { asm volatile("" ::: "memory"); }

static void* Other(void* unused) {
  void* const object = malloc(kSize);
  in_other_thread = object;
  free(object);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

int main(void) {
  RequireLibraryUnderTest();
  // The span stays, since its other objects stay.
  void* kept[kNumKept];
  for (int i = 0; i < kNumKept; ++i) kept[i] = malloc(kSize);
  in_use = kept[0];
  in_central_list = kept[1];
  free(kept[1]);
  malloc_trim(0);

  // These are more than a thread cache holds: the rest goes to the central free lists. The spans
  // stay, as above.
  for (int i = 0; i < kNumMany; ++i) many[i] = malloc(2 * kSize);
  for (int i = 0; i < kNumMany; ++i) {
    if (i % 100 >= 50) continue;
    free(many[i]);
    in_thread_cache = many[i];
  }
  large = malloc(1000000);

  pthread_barrier_init(&barrier, NULL, 2);
  pthread_t other;
  pthread_create(&other, NULL, Other, NULL);
  pthread_barrier_wait(&barrier);
  LookAtHeap();
  pthread_barrier_wait(&barrier);
  pthread_join(other, NULL);
  free(large);
  return 0;
}
