// SPDX-License-Identifier: BSD-3-Clause
//
// Linked statically with the allocator: a process whose threads never stop allocating forks again
// and again, and each child allocates, also in a thread of its own. Compiled as C and as C++. An
// argument says how often.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      _Exit(1);                                                                     \
    }                                                                               \
  } while (0)

#ifdef __cplusplus
extern "C"
#endif
    // Only this allocator has this name: the program does not link without it.
    size_t
    tcmalloc_flush_this_thread_cache(void);

enum { kThreads = 3, kObjects = 400, kInherited = 1000, kSecondsForAll = 60 };

static char stop;

static void Round(unsigned seed) {
  char* objects[kObjects];
  for (unsigned i = 0; i < kObjects; ++i) {
    const size_t size = i % 10 == 9 ? 300000 : 8 + (i * 37 + seed) % 4000;
    objects[i] = (char*)malloc(size);
    CHECK(objects[i] != NULL);
    objects[i][0] = objects[i][size - 1] = (char)i;
  }
  for (unsigned i = 0; i < kObjects; ++i) {
    CHECK(objects[i][0] == (char)i);
    free(objects[i]);
  }
  tcmalloc_flush_this_thread_cache();  // so that the next calls use the central free lists and the
                                       // page heap, with their locks
}

static void* Busy(void* argument) {
  for (unsigned seed = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); ++seed) Round(seed);
  return argument;
}

static void* Once(void* argument) {
  Round(7);
  return argument;
}

int main(int argc, char** argv) {
  const int forks = argc > 1 ? atoi(argv[1]) : 30;
  alarm(kSecondsForAll);  // Children set their own alarm: they do not inherit it.
  tcmalloc_flush_this_thread_cache();
  char* inherited[kInherited];
  for (int i = 0; i < kInherited; ++i) {
    inherited[i] = (char*)malloc(100);
    CHECK(inherited[i] != NULL);
    memset(inherited[i], i, 100);
  }
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_create(&threads[i], NULL, Busy, NULL) == 0);
  for (int i = 0; i < forks; ++i) {
    Round((unsigned)i);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(kSecondsForAll);
      for (int k = 0; k < kInherited; ++k) {
        CHECK(inherited[k][0] == (char)k && inherited[k][99] == (char)k);
        free(inherited[k]);
      }
      Round(1);
      pthread_t thread;
      CHECK(pthread_create(&thread, NULL, Once, NULL) == 0);
      CHECK(pthread_join(thread, NULL) == 0);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < kInherited; ++i) free(inherited[i]);
  puts("static use ok");
  return 0;
}
