// SPDX-License-Identifier: BSD-3-Clause
// A program that writes past the end of its memory does not reach the records of the allocator:
// after the heap comes a page without access. The program runs itself; each run has other addresses
// and another number of objects, fills its heap until the last object ends where the mapping ends,
// and writes 1,024 bytes from there on: this must end it with SIGSEGV. A run with records or other
// memory in the same mapping has no such object.
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../check.h"

enum { kRuns = 20, kMostObjects = 20000, kOverrun = 1024, kNoLastObject = 3 };

// Returns the end of the writable mapping that has the byte before `address`. Allocates nothing.
static uintptr_t EndOfMapping(uintptr_t address) {
  static char text[1 << 20];
  ReadFile("/proc/self/maps", text, sizeof(text));
  for (char *line = text, *rest; *line != '\0'; line = strchr(line, '\n') + 1) {
    const uintptr_t start = strtoull(line, &rest, 16);
    const uintptr_t end = strtoull(rest + 1, NULL, 16);
    if (start < address && address <= end) return end;
  }
  return 0;
}

static void Overrun(size_t first) {
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  static const size_t kSizes[] = {8192, 80, 4096, 48, 256 << 10, 640};
  uintptr_t top = 0;
  for (size_t i = 0; i < kMostObjects; ++i) {
    char* const object = (char*)Malloc(kSizes[(first + i) % (sizeof(kSizes) / sizeof(*kSizes))]);
    CHECK(object != NULL);
    const uintptr_t end = (uintptr_t)object + malloc_usable_size(object);
    if (end > top) top = end;
    if (i % 500 == 499 && EndOfMapping(top) == top) break;
  }
  if (EndOfMapping(top) != top) _exit(kNoLastObject);
  memset((void*)top, 'A', kOverrun);
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  if (argc > 1) {
    Overrun(strtoul(argv[1], NULL, 10));
    return 0;
  }
  for (int run = 0; run < kRuns; ++run) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      char number[16];
      snprintf(number, sizeof(number), "%d", run);
      execl("/proc/self/exe", argv[0], number, (char*)NULL);
      _exit(2);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) continue;
    dprintf(STDERR_FILENO, "run %d ended with status %#x%s\n", run, status,
            WIFEXITED(status) && WEXITSTATUS(status) == kNoLastObject
                ? ": other memory follows the heap in its mapping"
                : "");
    return 1;
  }
  return 0;
}
