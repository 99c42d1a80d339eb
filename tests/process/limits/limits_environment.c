// SPDX-License-Identifier: BSD-3-Clause
//
// Tests limits that the environment sets, from the first allocation of the process on: the program
// executes itself anew with each.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/wait.h>

#include "../check.h"

enum { kMiB = 1 << 20 };

extern size_t tcmalloc_get_memory_limit(int) __attribute__((weak));

static void Hard(void) {
  CHECK(tcmalloc_get_memory_limit(0) == 64u * kMiB && tcmalloc_get_memory_limit(1) == 0);
  size_t count = 0;
  while (Malloc(kMiB) != NULL) ++count;
  CHECK(errno == ENOMEM && count >= 56 && count < 64);
}

static void Soft(void) {
  CHECK(tcmalloc_get_memory_limit(0) == 0 && tcmalloc_get_memory_limit(1) == 30u * kMiB);
  void* objects[100];
  for (int i = 0; i < 100; ++i) objects[i] = NewMarked(kMiB, 1);
  for (int i = 0; i < 100; ++i) Free(objects[i]);
  CHECK(ResidentBytes() < 40u * kMiB);
}

// Sets half of the control group's limit, if there is one: no allocation may fail because of it,
// and no file may stay open.
static void Share(void) {
  CHECK(tcmalloc_get_memory_limit(0) == 0);
  Exercise(1);
  const size_t limit = tcmalloc_get_memory_limit(1);
  CHECK(limit == 0 || limit > kMiB);
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(fd == STDERR_FILENO + 1);
  close(fd);
  dprintf(STDOUT_FILENO, "half of the control group's limit: %zu MiB\n", limit / kMiB);
}

static void None(void) {
  CHECK(tcmalloc_get_memory_limit(0) == 0 && tcmalloc_get_memory_limit(1) == 0);
  void* const large = NewMarked(200 * kMiB, 1);
  Free(large);
}

static const struct Case {
  const char* name;
  const char* setting;
  void (*run)(void);
} kCases[] = {
    {"hard", "TCMALLOC_HEAP_LIMIT_MB=64", Hard},
    {"soft", "TCMALLOC_SOFT_LIMIT=30M", Soft},
    {"share", "TCMALLOC_SOFT_LIMIT=50%", Share},
    {"none", "TCMALLOC_HEAP_LIMIT_MB=0", None},
};

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(tcmalloc_get_memory_limit != NULL);
  char self[PATH_MAX];
  CHECK(realpath("/proc/self/exe", self) != NULL);
  for (unsigned i = 0; i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    if (argc > 1) {
      if (strcmp(argv[1], kCases[i].name) == 0) kCases[i].run();
      continue;
    }
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      for (int fd = STDERR_FILENO + 1; fd < 100; ++fd) close(fd);
      putenv((char*)(uintptr_t)kCases[i].setting);
      execl(self, self, kCases[i].name, (char*)NULL);
      _exit(2);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (status != 0) dprintf(STDERR_FILENO, "%s: status %d\n", kCases[i].setting, status);
    CHECK(status == 0);
  }
  return 0;
}
