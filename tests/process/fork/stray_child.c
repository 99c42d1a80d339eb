// SPDX-License-Identifier: BSD-3-Clause
// Children of a process with busy threads that were made without fork handlers: by the system call
// clone, as service managers make them, and by _Fork. At that moment other threads hold locks of
// the allocator. The child allocates and frees, objects of the parent too, starts threads, forks,
// and ends by exit or _exit.
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

extern pid_t _Fork(void) __attribute__((weak));

enum { kThreads = 2, kObjects = 100, kChildren = 100, kLimitSeconds = 40 };

static atomic_int stop;

static unsigned Random(unsigned* state) {
  return *state = *state * 1103515245 + 12345, *state >> 8;
}

static size_t RandomSize(unsigned* state) {
  return 1 + (Random(state) % 20 != 0 ? Random(state) % 8000 : 300000 + Random(state) % 900000);
}

// Keeps the locks of the page heap and of the central free lists busy.
static void* Busy(void* seed) {
  unsigned state = (unsigned)(intptr_t)seed;
  char* objects[kObjects] = {0};
  while (!stop) {
    const unsigned i = Random(&state) % kObjects;
    free(objects[i]);
    objects[i] = malloc(RandomSize(&state));
    CHECK(objects[i] != NULL);
    objects[i][0] = 1;
  }
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
  return NULL;
}

// Objects of the parent's, in use in the child.
static char* inherited[kObjects];

// Few objects are large, since each child copies all of their pages.
static size_t InheritedSize(int i) { return i % 50 == 0 ? 400000 : (size_t)i * 30 + 1; }

static void Inherit(void) {
  for (int i = 0; i < kObjects; ++i) inherited[i] = NewMarked(InheritedSize(i), (unsigned)i);
}

// Also frees the inherited objects.
static void UseMemory(void) {
  enum { kNew = 200 };
  static char* fresh[kNew];
  for (unsigned i = 0; i < kNew; ++i) {
    fresh[i] = NewMarked(i * 20 + 1, i);
    CHECK(malloc_usable_size(fresh[i]) >= i * 20 + 1);
  }
  for (int i = 0; i < kObjects; ++i) CheckMarked(inherited[i], InheritedSize(i), (unsigned)i);
  for (int i = 0; i < kObjects; ++i) {
    inherited[i] = Realloc(inherited[i], 2 * InheritedSize(i));
    CHECK(inherited[i] != NULL);
    FreeMarked(inherited[i], InheritedSize(i), (unsigned)i);
  }
  for (unsigned i = 0; i < kNew; ++i) {
    CheckMarked(fresh[i], i * 20 + 1, i);
    fresh[i] = Realloc(fresh[i], i == 10 ? 300000 : i * 30 + 1);
    FreeMarked(fresh[i], i * 20 + 1, i);
  }
  for (unsigned i = 0; i < 20; ++i) {
    const size_t size = i == 7 ? 350000 : 700;
    char* const zero = Calloc(7, size / 7);
    CHECK(zero != NULL);
    FreeMarked(zero, size, 0);
    char* const aligned = memalign(4096, i * 500 + 1);
    CHECK(aligned != NULL && (uintptr_t)aligned % 4096 == 0);
    memset(aligned, 1, i * 500 + 1);
    free(aligned);
  }
}

static void* UseInThread(void* unused) {
  FreeMarked(NewMarked(1000, 1), 1000, 1);
  return unused;
}

// Ends a child that hangs, with a status that is not 0.
static void LimitTime(void) { alarm(kLimitSeconds); }

static void RunChild(int i) {
  LimitTime();
  UseMemory();
  if (i % 10 == 0) {
    // The child uses the C library's fork.
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      LimitTime();
      Inherit();
      UseMemory();
      _exit(0);
    }
    AwaitChild(grandchild);
  }
  if (i % 10 == 1) exit(0);
  // Threads of the child, and their ends.
  if (i % 10 == 2) JoinThread(StartThread(UseInThread, NULL));
  _exit(0);
}

int main(void) {
  RequireLibraryUnderTest();
  Inherit();
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i) threads[i] = StartThread(Busy, (void*)(i + 1));
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child =
        _Fork != NULL && i % 3 == 0 ? _Fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0) RunChild(i);
    AwaitChild(child);
  }
  stop = 1;
  for (int i = 0; i < kThreads; ++i) JoinThread(threads[i]);
  // The parent's heap is intact.
  UseMemory();
  printf("%d children beside %d threads\n", kChildren, kThreads);
  return 0;
}
