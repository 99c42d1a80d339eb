// SPDX-License-Identifier: BSD-3-Clause
//
// Tests vfork with exec, posix_spawn, popen and system in a program with busy threads. The child of
// vfork runs on the parent's memory: it must leave the parent's heap as it was. Programs started
// this way are this one again, with an argument, and so run on the allocator themselves.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

#include "../check.h"

enum { kThreads = 3, kRounds = 15 };

extern char** environ;
static volatile int stop;

static void* Busy(void* argument) {
  unsigned tag = (unsigned)(size_t)argument;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) Exercise(tag++);
  return NULL;
}

static void WaitFor(pid_t child, int expected) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  if (argc > 1) {
    Exercise(1);
    printf("started\n");
    return 42;
  }
  char self[PATH_MAX];
  CHECK(realpath("/proc/self/exe", self) != NULL);
  char* const arguments[] = {self, (char*)"child", NULL};
  const int null = open("/dev/null", O_WRONLY);
  CHECK(null >= 0 && dup2(null, STDOUT_FILENO) == STDOUT_FILENO);
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, Busy, (void*)(i * 1000)) == 0);
  }
  for (unsigned round = 0; round < kRounds; ++round) {
    char* object = NewMarked(3000, round);
    pid_t child = vfork();
    if (child == 0) {
      execv(self, arguments);
      _exit(127);
    }
    CHECK(child > 0);
    Exercise(round);
    WaitFor(child, 42);
    // This vfork child cannot exec.
    child = vfork();
    if (child == 0) {
      execl("/nonexistent/program", "program", (char*)NULL);
      _exit(7);
    }
    CHECK(child > 0);
    WaitFor(child, 7);
    CHECK(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0);
    Exercise(round);
    WaitFor(child, 42);
    char command[PATH_MAX + 16];
    snprintf(command, sizeof(command), "'%s' child", self);
    FILE* pipe = popen(command, "r");
    CHECK(pipe != NULL);
    char line[64];
    CHECK(fgets(line, sizeof(line), pipe) != NULL && strcmp(line, "started\n") == 0);
    CHECK(WEXITSTATUS(pclose(pipe)) == 42);
    CHECK(WEXITSTATUS(system(command)) == 42);
    FreeMarked(object, 3000, round);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  return 0;
}
