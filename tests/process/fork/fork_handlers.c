// SPDX-License-Identifier: BSD-3-Clause
// Tests fork() with handlers of other libraries that allocate. glibc runs prepare handlers in
// reverse order of their registration. Handlers registered before the allocator's own therefore run
// between its prepare handler and the fork, when they must not wait for another thread's unfinished
// operation; handlers registered later run before. There are three sets here: one from the
// program's preinit array, earlier than every constructor of every library; one from the
// constructor of atfork_library.c, which ctest preloads before or after the allocator, or has as a
// dependency; and one from main, later than all. The last one also takes a lock that other threads
// hold while they allocate: that is the purpose of such handlers.
//
// The busy threads also call the library, which allocates under its own lock: the library's prepare
// handler then waits for a thread that is inside the allocator.
#define _GNU_SOURCE

#include "atfork_handlers.h"

enum { kThreads = 3, kForks = 60, kChildSeconds = 30 };

static void Preinit(int argc, char** argv, char** environment) { RegisterHandlers(); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**,
                                                                              char**) = Preinit;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int lock_runs;

static void LockPrepare(void) {
  pthread_mutex_lock(&lock);
  ++lock_runs;
  Exercise(63);
}
static void LockRelease(void) {
  Exercise(64);
  pthread_mutex_unlock(&lock);
}

static volatile int stop;
static void (*use_library)(void);

static void* Busy(void* argument) {
  unsigned tag = (unsigned)(size_t)argument;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    Exercise(tag++);
    pthread_mutex_lock(&lock);
    Free(NewMarked(tag % 50000, tag));
    pthread_mutex_unlock(&lock);
    use_library();
  }
  return NULL;
}

static void* ExerciseThread(void* argument) {
  Exercise(65);
  return argument;
}

int main(void) {
  RequireLibraryUnderTest();
  int (*library_runs)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "LibraryHandlerRuns");
  CHECK(library_runs != NULL);
  use_library = (void (*)(void))dlsym(RTLD_DEFAULT, "UseLibrary");
  CHECK(use_library != NULL);
  CHECK(pthread_atfork(LockPrepare, LockRelease, LockRelease) == 0);
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) threads[i] = StartThread(Busy, (void*)(i * 1000));
  for (int i = 1; i <= kForks; ++i) {
    alarm(kChildSeconds);  // This process needs it, too: prepare handlers may hang.
    pid_t child = fork();
    if (child == 0) {
      alarm(kChildSeconds);
      CHECK(child_runs == 1 && prepare_runs == i && lock_runs == i);
      CHECK(library_runs() == i * 1000000 + (i - 1) * 1000 + 1);
      const pthread_t thread = StartThread(ExerciseThread, NULL);
      Exercise(66);
      JoinThread(thread);
      exit(0);
    }
    AwaitChild(child);
    CHECK(parent_runs == i && child_runs == 0);
  }
  alarm(0);
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < kThreads; ++i) JoinThread(threads[i]);
  return 0;
}
