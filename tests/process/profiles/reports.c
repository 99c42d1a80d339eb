/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with known objects that does what its arguments say, for reports_test.py.
 *
 *   reports WORD...   does each word in turn, after writing the word to stdout
 *
 *     hold:N     allocates objects of 1 MiB until there are N
 *     keep:N     frees objects until there are N
 *     wait       reads a byte from stdin, without allocating, whatever signals arrive
 *     pause      waits for a signal, then continues
 *     fork       forks: the child does the rest; the parent waits for its end and exits
 *     leak       leaks ten objects of 100000 bytes
 *     thread     starts a thread that does the rest; the main thread ends
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

enum { kMost = 256, kObject = 1 << 20 };

static void* objects[kMost];
static int held = 0;

static void Hold(int n) {
  CHECK(n <= kMost);
  while (held < n) {
    objects[held] = Malloc(kObject);
    CHECK(objects[held] != NULL);
    ++held;
  }
}

static void Keep(int n) {
  while (held > n) Free(objects[--held]);
}

static void Lose(void) {
  for (int i = 0; i < 10; ++i) {
    void* volatile object = Malloc(100000);
    CHECK(object != NULL);
    object = NULL;
  }
}

static void Wait(void) {
  char byte;
  while (read(STDIN_FILENO, &byte, 1) < 0) CHECK(errno == EINTR);
}

static int IsNumbered(const char* word, const char* name, int* number) {
  const size_t length = strlen(name);
  if (strncmp(word, name, length) != 0) return 0;
  *number = atoi(word + length);
  return 1;
}

/* Does the words from `at` on, up to a null pointer, then exits. */
static void* Do(void* at) {
  for (char** words = at; *words != NULL; ++words) {
    const char* const word = *words;
    int n = 0;
    if (IsNumbered(word, "hold:", &n)) {
      Hold(n);
    } else if (IsNumbered(word, "keep:", &n)) {
      Keep(n);
    } else if (strcmp(word, "wait") == 0) {
      Wait();
    } else if (strcmp(word, "pause") == 0) {
      dprintf(STDOUT_FILENO, "pauses\n");
      pause();
    } else if (strcmp(word, "fork") == 0) {
      const pid_t child = fork();
      CHECK(child >= 0);
      if (child != 0) {
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
      }
      dprintf(STDOUT_FILENO, "child %d\n", (int)getpid());
    } else if (strcmp(word, "leak") == 0) {
      Lose();
    } else if (strcmp(word, "thread") == 0) {
      pthread_t thread;
      CHECK(pthread_create(&thread, NULL, Do, words + 1) == 0);
      pthread_exit(NULL);
    }
    dprintf(STDOUT_FILENO, "%s\n", word);
  }
  exit(0);
}

int main(int argc, char** argv) {
  (void)argc;
  /* The output must not allocate. */
  setvbuf(stdout, NULL, _IONBF, 0);
  Do(argv + 1);
}
