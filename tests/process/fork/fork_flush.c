// SPDX-License-Identifier: BSD-3-Clause
//
// Tests fork handlers of other libraries that flush all threads' caches. direct_atfork_library.c
// registers them with the C library before the allocator's own: prepare runs after the allocator's,
// parent and child run before. Between the allocator's handlers every lock is held for fork. Then a
// flush takes only the caller's own cache; in the child the owners of the other caches do not
// exist.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "../check.h"
#include "../thread_caches.h"

enum { kBlocked = 4, kBusy = 3, kCaches = kBlocked + kBusy + 1, kForks = 50, kChildSeconds = 30 };

static FlushFunction flush_thread_caches;
static FlushFunction flush_this_thread_cache;
static int prepare_runs, parent_runs, child_runs;

static void FlushAndUse(unsigned tag) {
  if (flush_thread_caches == NULL) return;  // This is a fork before main.
  Exercise(tag);
  // The blocked threads have objects in their caches; they stay there.
  flush_this_thread_cache();
  CHECK(flush_thread_caches() == 0);
  // In the child, too, the caches are not yet orphans: the allocator's handler runs later.
  CHECK(ThreadCaches() == kCaches);
  // The cache is empty and has no limit, so the thread tries to steal from other caches.
  for (unsigned i = 0; i < 20; ++i) Exercise(tag + i);
}

static void Prepare(void) {
  ++prepare_runs;
  FlushAndUse(10);
}
static void Parent(void) {
  ++parent_runs;
  FlushAndUse(40);
}
static void Child(void) {
  ++child_runs;
  FlushAndUse(70);
}

// Registers the handlers before the constructor of every library runs, and not through the
// allocator's function.
static void Preinit(int argc, char** argv, char** environment) {
  typedef int (*Register)(void (*)(void), void (*)(void), void (*)(void));
  const Register register_behind = (Register)dlsym(RTLD_DEFAULT, "RegisterBehind");
  CHECK(register_behind != NULL);
  CHECK(register_behind(Prepare, Parent, Child) == 0);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**,
                                                                              char**) = Preinit;

static volatile int stop;
static pthread_barrier_t started;

// Leaves free objects of many classes in the calling thread's cache.
static void FillCache(void) {
  char* objects[40];
  for (size_t size = 16; size <= 4096; size *= 4) {
    for (int i = 0; i < 40; ++i) objects[i] = NewMarked(size, 7);
    for (int i = 0; i < 40; ++i) FreeMarked(objects[i], size, 7);
  }
}

static void* Block(void* argument) {
  FillCache();
  pthread_barrier_wait(&started);
  // Waits until the program stops.
  pthread_barrier_wait(&started);
  return argument;
}

static void* Work(void* argument) {
  FillCache();
  pthread_barrier_wait(&started);
  for (unsigned tag = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); ++tag) Exercise(tag);
  pthread_barrier_wait(&started);
  return argument;
}

static void* ExerciseThread(void* argument) {
  Exercise(65);
  return argument;
}

static void RunChild(void) {
  alarm(kChildSeconds);
  CHECK(child_runs == 1);
  flush_thread_caches();
  CHECK(ThreadCaches() == 1);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, ExerciseThread, NULL) == 0);
  Exercise(66);
  CHECK(pthread_join(thread, NULL) == 0);
  exit(0);
}

int main(void) {
  RequireLibraryUnderTest();
  pthread_t threads[kBlocked + kBusy];
  CHECK(pthread_barrier_init(&started, NULL, kCaches) == 0);
  for (int i = 0; i < kBlocked + kBusy; ++i) {
    CHECK(pthread_create(&threads[i], NULL, i < kBlocked ? Block : Work, NULL) == 0);
  }
  pthread_barrier_wait(&started);
  flush_this_thread_cache = FindFlushFunction("tcmalloc_flush_this_thread_cache");
  flush_thread_caches = FindFlushFunction("tcmalloc_flush_thread_caches");
  for (int i = 1; i <= kForks; ++i) {
    alarm(kChildSeconds);  // This process needs it, too: handlers may hang.
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) RunChild();
    CHECK(prepare_runs == i && parent_runs == i && child_runs == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  alarm(0);
  // The blocked threads still have their objects, and outside of fork these can be flushed.
  CHECK(flush_thread_caches() > 10000);
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  pthread_barrier_wait(&started);
  for (int i = 0; i < kBlocked + kBusy; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  return 0;
}
