// SPDX-License-Identifier: BSD-3-Clause
// A library that allocates in its first constructor, before or after the allocator's own
// constructors have run, keeps an object for its last destructor, and hands one to the program.
#define _GNU_SOURCE

#include "../check.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT char* early_object;  // Allocated here, freed by the program.
EXPORT char* late_object;   // Allocated by the program, freed here.
EXPORT int early_library_runs;

static char* kept;

static void* InThread(void* argument) {
  Exercise(50);
  return argument;
}

__attribute__((constructor(101))) static void FirstConstructor(void) {
  Exercise(10);
  kept = NewMarked(100000, 0x21);
  early_object = NewMarked(777, 0x22);
  JoinThread(StartThread(InThread, NULL));
  early_library_runs = 1;
}

__attribute__((destructor(101))) static void LastDestructor(void) {
  FreeMarked(kept, 100000, 0x21);
  CHECK(late_object != NULL);
  FreeMarked(late_object, 555, 0x23);
  Exercise(11);
}
