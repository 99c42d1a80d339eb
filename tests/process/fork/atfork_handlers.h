// SPDX-License-Identifier: BSD-3-Clause
// A set of pthread_atfork handlers that allocate and free in all three places and count themselves.
// Each file that includes this gets a set of its own.
#pragma once

#include <pthread.h>

#include "../check.h"

static int prepare_runs;
static int parent_runs;
static int child_runs;
static char* across_fork;  // Allocated by prepare, freed by both others.

static void Prepare(void) {
  ++prepare_runs;
  Exercise(60);
  Free(NewMarked(3 << 20, 1));
  across_fork = NewMarked(2000, 0x61);
}
static void Parent(void) {
  ++parent_runs;
  FreeMarked(across_fork, 2000, 0x61);
  Exercise(61);
}
static void Child(void) {
  ++child_runs;
  FreeMarked(across_fork, 2000, 0x61);
  Exercise(62);
}
static inline void RegisterHandlers(void) { CHECK(pthread_atfork(Prepare, Parent, Child) == 0); }
