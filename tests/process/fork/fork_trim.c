// SPDX-License-Identifier: BSD-3-Clause
// Tests fork() while another thread is in malloc_trim and has claimed megabytes of free objects to
// release their memory: the child, which lacks that thread, has those objects again, and starts
// threads. Also linked statically, compiled as C and as C++.
#define _GNU_SOURCE
#include <malloc.h>

#include "../check.h"

enum {
  kSize = 1024,
  kObjects = 64 << 10,  // 64 MiB
  kLivesFrom = 100,     // one object of this many is never freed: about one in each span
  kChildren = 60,
};
// The child leaks the objects of a thread that was in the middle of malloc, of free or of emptying
// a cache: a few batches. A claim takes several times as much memory.
static const size_t kMostLost = 1 << 20;
static void* volatile objects[kObjects];
static volatile int stop;

static int IsLongLived(int i) { return i % kLivesFrom == 0; }

// Every round makes the same free pages again.
static void* TrimAgainAndAgain(void* unused) {
  (void)unused;
  while (!stop) {
    for (int i = 0; i < kObjects; ++i) {
      if (objects[i] == NULL) objects[i] = NewMarked(kSize, 1);
    }
    for (int i = 0; i < kObjects; ++i) {
      if (IsLongLived(i)) continue;
      void* const object = objects[i];
      objects[i] = NULL;
      Free(object);
    }
    malloc_trim(0);
  }
  return NULL;
}

static void* ExerciseInThread(void* unused) {
  Exercise(2);
  return unused;
}

static void Child(void) {
  alarm(60);
  size_t live = 0;
  for (int i = 0; i < kObjects; ++i) {
    if (IsLongLived(i)) {
      live += objects[i] != NULL ? kSize : 0;
    } else {
      Free(objects[i]);
    }
  }
  malloc_trim(0);
  const struct mallinfo2 info = mallinfo2();
  if (info.uordblks > live + kMostLost) {
    dprintf(STDERR_FILENO, "%zu bytes in use, %zu live\n", info.uordblks, live);
    _exit(1);
  }
  Exercise(1);
  JoinThread(StartThread(ExerciseInThread, NULL));
  _exit(0);
}

int main(void) {
  RequireLibraryUnderTest();
  for (int i = 0; i < kObjects; ++i) objects[i] = NewMarked(kSize, 1);
  const pthread_t thread = StartThread(TrimAgainAndAgain, NULL);
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = fork();
    if (child == 0) Child();
    AwaitChild(child);
  }
  stop = 1;
  JoinThread(thread);
  return 0;
}
