// SPDX-License-Identifier: BSD-3-Clause
// A library whose constructor registers fork handlers that allocate and that take the library's
// lock, under which the library allocates as well.
#define _GNU_SOURCE
#include "atfork_handlers.h"

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

static void Lock(void) { pthread_mutex_lock(&library_lock); }
static void Unlock(void) { pthread_mutex_unlock(&library_lock); }

__attribute__((constructor(101))) static void Register(void) {
  RegisterHandlers();
  CHECK(pthread_atfork(Lock, Unlock, Unlock) == 0);
}

// A call that the library makes under its lock.
__attribute__((visibility("default"))) void UseLibrary(void) {
  Lock();
  Exercise(70);
  Unlock();
}

// How often prepare, parent and child handlers ran, in one number.
__attribute__((visibility("default"))) int LibraryHandlerRuns(void) {
  return prepare_runs * 1000000 + parent_runs * 1000 + child_runs;
}
