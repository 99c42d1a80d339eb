// SPDX-License-Identifier: BSD-3-Clause
// Shared by the small programs of this folder: a check that ends the program, a check that the
// program runs on the library under test, and objects with contents that are checked. C and C++;
// needs _GNU_SOURCE and libc alone.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Ends the program with status 1 if `condition` is false. Allocates nothing.
#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) CheckFailed(__FILE__, __LINE__, #condition); \
  } while (0)

static inline void CheckFailed(const char* file, int line, const char* condition) {
  dprintf(STDERR_FILENO, "%s:%d: process %d: %s does not hold\n", file, line, (int)getpid(),
          condition);
  _exit(1);
}

#ifdef __cplusplus
#define IN_C extern "C"
#else
#define IN_C
#endif

#ifdef LINKED_STATICALLY
IN_C size_t tcmalloc_flush_this_thread_cache(void);

// Ends the program unless objects that it frees go to a cache of the library.
static inline void RequireLibraryUnderTest(void) {
  void* (*volatile allocate)(size_t) = malloc;
  tcmalloc_flush_this_thread_cache();
  free(allocate(1000));
  CHECK(tcmalloc_flush_this_thread_cache() >= 1000);
}
#else
// Ends the program unless `malloc` and `free` lead into the file that LIBRARY_UNDER_TEST names.
static inline void RequireLibraryUnderTest(void) {
  const char* expected = getenv("LIBRARY_UNDER_TEST");
  CHECK(expected != NULL);
  char expected_path[PATH_MAX];
  CHECK(realpath(expected, expected_path) != NULL);
  const char* const names[] = {"malloc", "free", "calloc", "realloc", "memalign"};
  for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    void* function = dlsym(RTLD_DEFAULT, names[i]);
    CHECK(function != NULL);
    Dl_info place;
    CHECK(dladdr(function, &place) != 0);
    char actual_path[PATH_MAX];
    CHECK(realpath(place.dli_fname, actual_path) != NULL);
    if (strcmp(actual_path, expected_path) != 0) {
      dprintf(STDERR_FILENO, "%s comes from %s, not from %s\n", names[i], actual_path,
              expected_path);
      _exit(1);
    }
  }
}
#endif

// Allocation through volatile pointers: the compiler must not pair malloc with free and drop both.
static void* (*volatile Malloc)(size_t) = malloc;
static void (*volatile Free)(void*) = free;
static void* (*volatile Calloc)(size_t, size_t) = calloc;
static void* (*volatile Realloc)(void*, size_t) = realloc;

// An object of `size` bytes that are all marked with `tag`.
static inline char* NewMarked(size_t size, unsigned tag) {
  char* object = (char*)Malloc(size);
  CHECK(object != NULL);
  memset(object, (int)(tag & 0xff), size);
  return object;
}
static inline void CheckMarked(const char* object, size_t size, unsigned tag) {
  CHECK((unsigned char)object[0] == (tag & 0xff));
  CHECK(memcmp(object, object + 1, size - 1) == 0);
}
static inline void FreeMarked(char* object, size_t size, unsigned tag) {
  CheckMarked(object, size, tag);
  Free(object);
}

// Calls malloc, calloc, realloc and free with some small and large sizes.
static inline void Exercise(unsigned tag) {
  static const size_t kSizes[] = {1,    8,    9,    24,   64,    100,   200,   500,   1000,
                                  1025, 2000, 5000, 9000, 20000, 40000, 70000, 300000};
  enum { kCount = sizeof(kSizes) / sizeof(kSizes[0]) };
  char* objects[kCount];
  for (int i = 0; i < kCount; ++i) {
    const unsigned mark = tag + (unsigned)i;
    if (i % 3 == 1) {
      objects[i] = (char*)Calloc(1, kSizes[i]);
      CHECK(objects[i] != NULL);
      CheckMarked(objects[i], kSizes[i], 0);
      memset(objects[i], (int)(mark & 0xff), kSizes[i]);
    } else {
      objects[i] = NewMarked(kSizes[i], mark);
    }
  }
  for (int i = 0; i < kCount; i += 2) {
    objects[i] = (char*)Realloc(objects[i], kSizes[i] * 2);
    CHECK(objects[i] != NULL);
  }
  for (int i = 0; i < kCount; ++i) FreeMarked(objects[i], kSizes[i], tag + (unsigned)i);
}

// Waits for the end of a child, which must be exit with status 0.
static inline void AwaitChild(pid_t child) {
  CHECK(child > 0);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (status != 0) {
    dprintf(STDERR_FILENO, "child %d ended with status 0x%x%s\n", (int)child, (unsigned)status,
            WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
  }
  CHECK(status == 0);
}

static inline pthread_t StartThread(void* (*run)(void*), void* argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, argument) == 0);
  return thread;
}
static inline void JoinThread(pthread_t thread) { CHECK(pthread_join(thread, NULL) == 0); }

static inline void SleepMs(long ms) {
  const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

// The number of threads of the process, the library's included. Allocates nothing.
static inline int NumThreads(void) {
  struct stat status;
  CHECK(stat("/proc/self/task", &status) == 0);
  return (int)status.st_nlink - 2;
}

// Waits until the kernel has forgotten all other threads, which is a moment after they were joined
// or, if they are detached, after they have begun to end. The wait is limited: a child that waits
// in vain would outlive the test.
static inline void AwaitOneThread(void) {
  for (int i = 0; NumThreads() != 1 || unshare(CLONE_THREAD) != 0; ++i) {
    CHECK(i < 20000);
    SleepMs(1);
  }
}

// Reads a whole file, which must be shorter than `size`. Allocates nothing.
static inline void ReadFile(const char* path, char* text, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0);
  size_t length = 0;
  for (ssize_t got; (got = read(fd, text + length, size - 1 - length)) > 0;) length += (size_t)got;
  CHECK(length < size - 1 && close(fd) == 0);
  text[length] = '\0';
}

// A figure in KiB of /proc/self/smaps_rollup, in bytes. The kernel counts page by page (the figures
// of statm and status are collected per CPU and may lag by some hundred pages). Allocates nothing.
static inline size_t RollupBytes(const char* name) {
  char text[4096];
  ReadFile("/proc/self/smaps_rollup", text, sizeof(text));
  const char* line = strstr(text, name);
  CHECK(line != NULL);
  return strtoul(line + strlen(name), NULL, 10) * 1024;
}
static inline size_t ResidentBytes(void) { return RollupBytes("\nRss:"); }

// True when a file is mapped whose name, without the folders that it lies in, begins with `name`.
static inline int IsMapped(const char* name) {
  FILE* maps = fopen("/proc/self/maps", "re");
  CHECK(maps != NULL);
  char line[8192];  // A path has at most 4096 bytes.
  int found = 0;
  while (fgets(line, sizeof(line), maps) != NULL) {
    const char* slash = strrchr(line, '/');
    if (slash != NULL && strncmp(slash + 1, name, strlen(name)) == 0) found = 1;
  }
  CHECK(fclose(maps) == 0);
  return found;
}
