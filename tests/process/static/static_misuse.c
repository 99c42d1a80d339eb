// SPDX-License-Identifier: BSD-3-Clause
//
// Linked statically with the allocator: a bad pointer ends the program with one line that
// names the pointer, in whatever part of memory it lies. Compiled as C and as C++.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

static void* (*volatile Malloc)(size_t) = malloc;
static void (*volatile Free)(void*) = free;

// The child stores the pointer here that it is going to misuse.
static void* volatile* named;

static void FreeWrongly(void* pointer) {
  *named = pointer;
  Free(pointer);
}

static void Nothing(void) { Free(Malloc(100)); }
static void SmallTwice(void) {
  void* object = Malloc(100);
  Free(object);
  FreeWrongly(object);
}
static void LargeTwice(void) {
  void* object = Malloc(1 << 20);
  Free(object);
  FreeWrongly(object);
}
static void Inside(void) { FreeWrongly((char*)Malloc(1 << 20) + 8192 * 3); }
static void OnTheStack(void) {
  char text[64];
  FreeWrongly(text);
}
static void* FreeStackOfThread(void* argument) {
  OnTheStack();
  return argument;
}
static void OnAThreadsStack(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, FreeStackOfThread, NULL) == 0);
  pthread_join(thread, NULL);
}
static void Variable(void) {
  static char text[64];
  FreeWrongly(text);
}
static void Mapping(void) {
  void* pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  FreeWrongly((char*)pages + 64);
}

static void Run(const char* name, void (*misuse)(void)) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  *named = NULL;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(20);
    dup2(ends[1], STDERR_FILENO);
    misuse();
    _exit(0);
  }
  close(ends[1]);
  char text[1000];
  size_t length = 0;
  for (ssize_t got; (got = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0;) {
    length += (size_t)got;
  }
  close(ends[0]);
  text[length] = 0;
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  char pointer[32];
  snprintf(pointer, sizeof(pointer), "%p", *named);
  const int good = misuse == Nothing ? status == 0 && length == 0
                                     : WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
                                           strstr(text, pointer) != NULL &&
                                           strchr(text, '\n') == text + length - 1;
  if (good) return;
  fprintf(stderr, "%s, %s: status %#x, \"%s\"\n", name, pointer, (unsigned)status, text);
  _Exit(1);
}

int main(void) {
  tcmalloc_flush_this_thread_cache();
  named =
      (void* volatile*)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK((void*)named != MAP_FAILED);
  Run("nothing", Nothing);
  Run("a small object freed twice", SmallTwice);
  Run("a large object freed twice", LargeTwice);
  Run("a pointer into an object", Inside);
  Run("a pointer into the stack", OnTheStack);
  Run("a pointer into a thread's stack", OnAThreadsStack);
  Run("a pointer to a variable", Variable);
  Run("a pointer into another mapping", Mapping);
  puts("static use ok");
  return 0;
}
