// SPDX-License-Identifier: BSD-3-Clause
// Threads that never allocate. While they live, the library has its thread. When they have ended,
// in whatever way, the process has one thread again, and may make calls that need a process with
// one thread (unshare). The program cannot see how the library notices the ends: the C library
// calls a start function and passes its argument, and its result is the thread's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../check.h"

enum { kThreads = 8, kManyThreads = 40 };

static int arguments[kManyThreads];
static _Atomic int arrived;
static _Atomic int may_end;

// Runs in each thread: nothing here allocates.
static void Arrive(void* argument, const void* return_address) {
  const int* const place = (const int*)argument;
  CHECK(place >= arguments && place < arguments + kManyThreads);
  // The frame below that of the start function is the C library's.
  Dl_info caller;
  Dl_info libc;
  CHECK(dladdr(return_address, &caller) != 0);
  CHECK(dladdr(dlsym(RTLD_NEXT, "pthread_join"), &libc) != 0);
  CHECK(strcmp(caller.dli_fname, libc.dli_fname) == 0);
  ++arrived;
  while (!may_end) SleepMs(1);
}

static void* Returns(void* argument) {
  Arrive(argument, __builtin_return_address(0));
  return argument;
}

static void* Exits(void* argument) {
  Arrive(argument, __builtin_return_address(0));
  pthread_exit(argument);
}

static void* IsCancelled(void* argument) {
  Arrive(argument, __builtin_return_address(0));
  while (pause() == -1) {
  }
  return argument;
}

static pthread_key_t key;

// The C library calls this destructor in as many rounds as the value says.
static void SetAgain(void* rounds) {
  if ((char*)rounds > (char*)1) CHECK(pthread_setspecific(key, (char*)rounds - 1) == 0);
}

static void* HasKey(void* argument) {
  CHECK(pthread_setspecific(key, (void*)3) == 0);
  Arrive(argument, __builtin_return_address(0));
  return argument;
}

static void AllocateAtEnd(void* object) {
  char* const other = NewMarked(100, 1);
  Free(object == (void*)1 ? NULL : object);
  FreeMarked(other, 100, 1);
}

static pthread_key_t allocating_key;

static void* AllocatesAtEnd(void* argument) {
  CHECK(pthread_setspecific(allocating_key, (void*)1) == 0);
  Arrive(argument, __builtin_return_address(0));
  return argument;
}

// More start functions than the library has places for.
#define FUNCTION(i)                                    \
  static void* Start##i(void* argument) {              \
    Arrive(argument, __builtin_return_address(0));     \
    return (void*)((char*)argument + 0 * (intptr_t)i); \
  }
#define TEN(f, i) f(i##0) f(i##1) f(i##2) f(i##3) f(i##4) f(i##5) f(i##6) f(i##7) f(i##8) f(i##9)
TEN(FUNCTION, 1)
TEN(FUNCTION, 2)
TEN(FUNCTION, 3)
TEN(FUNCTION, 4)
#define NAME(i) Start##i,
static void* (*const many_starts[kManyThreads])(void*) = {TEN(NAME, 1) TEN(NAME, 2) TEN(NAME, 3)
                                                              TEN(NAME, 4)};

// Waits until the threads have arrived, checks that the library has its thread, and lets them end.
static void Release(int threads) {
  while (arrived != threads) SleepMs(1);
  CHECK(NumThreads() == threads + 2);
  may_end = 1;
}

static void Joined(void* (*start)(void*)) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, start, &arguments[i]) == 0);
  }
  Release(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    if (start == IsCancelled) CHECK(pthread_cancel(threads[i]) == 0);
    void* result = NULL;
    CHECK(pthread_join(threads[i], &result) == 0);
    CHECK(result == (start == IsCancelled ? PTHREAD_CANCELED : (void*)&arguments[i]));
  }
}

static void Detached(void* (*start)(void*)) {
  pthread_attr_t detached;
  CHECK(pthread_attr_init(&detached) == 0);
  CHECK(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0);
  pthread_t thread;
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&thread, &detached, start, &arguments[i]) == 0);
  }
  CHECK(pthread_attr_destroy(&detached) == 0);
  Release(kThreads);
}

// The library's thread does not outlive these either: threads that are not counted do not keep it.
static void ManyStarts(void* (*start)(void*)) {
  CHECK(start == NULL);
  pthread_t threads[kManyThreads];
  for (int i = 0; i < kManyThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, many_starts[i], &arguments[i]) == 0);
  }
  Release(kManyThreads);
  for (int i = 0; i < kManyThreads; ++i) {
    void* result = NULL;
    CHECK(pthread_join(threads[i], &result) == 0 && result == &arguments[i]);
  }
}

// A child of fork, in which the library starts its thread at once: it limits how often it does so.
static void InChild(void (*run)(void* (*start)(void*)), void* (*start)(void*)) {
  const pid_t child = fork();
  if (child == 0) {
    run(start);
    AwaitOneThread();
    _exit(0);
  }
  AwaitChild(child);
}

// Forks. The child has one thread, which has ended when the child has ended.
static void* Forks(void* argument) {
  InChild(Joined, Returns);
  return argument;
}

static void ForkInThread(void* (*start)(void*)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, start, &arguments[0]) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
  RequireLibraryUnderTest();
  CHECK(pthread_key_create(&key, SetAgain) == 0);
  CHECK(pthread_key_create(&allocating_key, AllocateAtEnd) == 0);
  for (int round = 0; round < 10; ++round) {
    InChild(Joined, Returns);
    InChild(Joined, Exits);
    InChild(Joined, IsCancelled);
    InChild(Joined, HasKey);
    InChild(Joined, AllocatesAtEnd);
    InChild(Detached, Returns);
    InChild(Detached, Exits);
    InChild(ForkInThread, Forks);
    InChild(ManyStarts, NULL);
  }
  return 0;
}
