// SPDX-License-Identifier: BSD-3-Clause
// Threads fork, flush all files, and read lines into buffers which grow, all at once. The flushing
// thread holds the C library's list of files and waits for the file that is being read; the reading
// thread allocates; fork waits for both. Each child uses files and allocates, and then forks.
#define _GNU_SOURCE
#include <sched.h>

#include "../check.h"

enum { kForks = 400, kLines = 2000, kLongest = 60000, kSecondsWithoutFork = 40 };

static volatile int stop;
static FILE* texts[2];

static void MakeTexts(void) {
  char path[] = "/tmp/fork_files.XXXXXX";
  const int fd = mkstemp(path);
  CHECK(fd >= 0);
  FILE* file = fdopen(fd, "w");
  CHECK(file != NULL);
  // Lines of all lengths: each longer one makes the buffer grow.
  for (int i = 1; i <= kLines; ++i) {
    const int length = i * (kLongest / kLines);
    for (int j = 0; j < length; ++j) putc('x', file);
    putc('\n', file);
  }
  CHECK(fclose(file) == 0);
  for (int i = 0; i < 2; ++i) {
    texts[i] = fopen(path, "re");
    CHECK(texts[i] != NULL);
  }
  CHECK(unlink(path) == 0);
}

static void* ReadLines(void* argument) {
  FILE* file = (FILE*)argument;
  while (!stop) {
    rewind(file);
    char* line = NULL;
    size_t size = 0;
    for (int i = 0; i < kLines && !stop; ++i) {
      CHECK(getline(&line, &size, file) == (i + 1) * (kLongest / kLines) + 1);
      if (i % 50 == 49) {
        free(line);
        line = NULL;
        size = 0;
      }
    }
    free(line);
  }
  return argument;
}

static void* FlushAll(void* argument) {
  while (!stop) {
    fflush(NULL);
    sched_yield();  // The list's lock is not fair: lets the other threads take it, too.
  }
  return argument;
}

static void UseFiles(void) {
  FILE* file = fopen("/dev/null", "we");
  CHECK(file != NULL);
  CHECK(fprintf(file, "%d\n", 7) == 2);
  CHECK(fflush(NULL) == 0);
  CHECK(fclose(file) == 0);
  Exercise(9);
}

static void* UseFilesInThread(void* argument) {
  UseFiles();
  return argument;
}

static void RunChild(int i) {
  alarm(kSecondsWithoutFork);
  if (i % 20 == 0) {
    UseFiles();
    const pthread_t thread = StartThread(UseFilesInThread, NULL);
    UseFiles();
    JoinThread(thread);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      UseFiles();
      _exit(0);
    }
    AwaitChild(grandchild);
  }
  _exit(0);
}

int main(void) {
  RequireLibraryUnderTest();
  MakeTexts();
  pthread_t threads[3];
  threads[0] = StartThread(ReadLines, texts[0]);
  threads[1] = StartThread(ReadLines, texts[1]);
  threads[2] = StartThread(FlushAll, NULL);
  for (int i = 0; i < kForks; ++i) {
    alarm(kSecondsWithoutFork);  // SIGALRM ends the process when a fork hangs.
    const pid_t child = fork();
    if (child == 0) RunChild(i);
    AwaitChild(child);
  }
  alarm(kSecondsWithoutFork);
  stop = 1;
  for (int i = 0; i < 3; ++i) JoinThread(threads[i]);
  return 0;
}
