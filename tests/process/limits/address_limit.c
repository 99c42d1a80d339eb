// SPDX-License-Identifier: BSD-3-Clause
// A program with 400 MiB of address space (first argument "as", RLIMIT_AS), or of private memory
// ("data", RLIMIT_DATA): it starts, gets most of that, gets ENOMEM when it is used up, and works as
// before once it has freed. With the second argument "start" the limit holds from the start of the
// process, with "later" from the middle of main. With "commit" the caller has set up a similar
// limit (scripts/test_system.py). With "addresses" the program uses up all addresses of a 32-bit
// process, including the upper half.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/resource.h>

#include "../check.h"

enum { kMiB = 1 << 20, kLimitMiB = 400 };

// -1: the limit is that of the OS.
static int resource;
static uintptr_t highest;

static void SetLimit(void) {
  if (resource < 0) return;
  const struct rlimit limit = {(rlim_t)kLimitMiB * kMiB, (rlim_t)kLimitMiB * kMiB};
  CHECK(setrlimit(resource, &limit) == 0);
}

// Allocates objects of `size` until that fails, frees them all, and returns their bytes. Touches
// memory sparsely.
static size_t UseUp(size_t size, size_t too_large) {
  void** newest = NULL;  // A list through the objects' first words.
  size_t count = 0;
  for (;;) {
    errno = 0;
    void** object = (void**)Malloc(size);
    if (object == NULL) break;
    CHECK((uintptr_t)object % 16 == 0);
    if ((uintptr_t)object > highest) highest = (uintptr_t)object;
    *object = newest;
    // Writes near the end of the object, to detect a wrong size.
    ((uintptr_t*)((char*)object + size))[-1] = (uintptr_t)object ^ size;
    newest = object;
    ++count;
  }
  CHECK(errno == ENOMEM);
  size_t freed = 0;
  // All other functions fail as well, and existing objects are still intact.
  errno = 0;
  CHECK(Calloc(1, too_large) == NULL && errno == ENOMEM);
  if (newest != NULL) {
    errno = 0;
    CHECK(Realloc(newest, too_large + 100 * kMiB) == NULL && errno == ENOMEM);
    // A shrink needs no memory, and the new size is the one that a sized free passes.
    void (*const free_sized)(void*, size_t) =
        (void (*)(void*, size_t))dlsym(RTLD_DEFAULT, "tc_free_sized");
    void** const next = (void**)*newest;
    void** const shrunk = (void**)Realloc(newest, 16);
    CHECK(shrunk != NULL && *shrunk == next);
    free_sized != NULL ? free_sized(shrunk, 16) : Free(shrunk);
    newest = next;
    ++freed;
  }
  while (newest != NULL) {
    void** next = (void**)*newest;
    CHECK(((uintptr_t*)((char*)newest + size))[-1] == ((uintptr_t)newest ^ size));
    Free(newest);
    newest = next;
    ++freed;
  }
  CHECK(freed == count);
  return count * size;
}

// Requires vm.overcommit_memory = 2: otherwise this program would take all memory of the machine.
static int IsStrictAboutMemory(void) {
  const int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  char text[1];
  const int strict = fd >= 0 && read(fd, text, 1) == 1 && text[0] == '2';
  close(fd);
  return strict;
}

static void* InThread(void* argument) {
  Exercise(9);
  return argument;
}

static void UseUpTheLimit(void) {
  static const size_t kSizes[] = {1000, 48, 20000, 200000, kMiB, 40 * kMiB, 1000, 150 * kMiB, 16};
  for (unsigned i = 0; i < sizeof(kSizes) / sizeof(kSizes[0]); ++i) {
    const size_t first = UseUp(kSizes[i], 200 * kMiB);
    Exercise(3);
    const size_t second = UseUp(kSizes[i], 200 * kMiB);
    dprintf(STDOUT_FILENO, "objects of %zu bytes: %zu MiB, then %zu MiB\n", kSizes[i], first / kMiB,
            second / kMiB);
    CHECK(first >= (size_t)(kSizes[i] > 100 * kMiB ? 150 : 250) * kMiB);
    CHECK(second >= first / 20 * 19);
  }
  // Other users of memory get some again: a thread's stack is 8 MiB.
  void* const large = Malloc(200 * kMiB);
  CHECK(large != NULL);
  Free(large);
  JoinThread(StartThread(InThread, NULL));
}

// Sizes that need much memory in one piece come after those that left smaller pieces, but not after
// small objects, whose records stay here and there. A 64-bit kernel leaves a process nearly 4 GiB,
// a 32-bit one 3 GiB.
static void UseUpAddresses(void) {
  static const struct {
    size_t size;
    size_t least_mib;
  } kRounds[] = {
      {100 * kMiB, 2400}, {700 * kMiB, 1400}, {kMiB, 2400}, {256 << 10, 2400}, {kMiB, 2400}};
  for (unsigned i = 0; i < sizeof(kRounds) / sizeof(kRounds[0]); ++i) {
    const size_t mib = UseUp(kRounds[i].size, PTRDIFF_MAX) / kMiB;
    dprintf(STDOUT_FILENO, "objects of %zu bytes: %zu MiB\n", kRounds[i].size, mib);
    CHECK(mib >= kRounds[i].least_mib);
    CHECK(highest > UINTPTR_MAX / 2);
    Exercise(2);
  }
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc >= 2);
  if (strcmp(argv[1], "addresses") == 0) {
    UseUpAddresses();
    return 0;
  }
  CHECK(argc == 3);
  resource = strcmp(argv[1], "data") == 0 ? RLIMIT_DATA : RLIMIT_AS;
  if (strcmp(argv[1], "commit") == 0) {
    CHECK(IsStrictAboutMemory());
    resource = -1;
  }
  if (strcmp(argv[2], "start") == 0) {
    SetLimit();
    char self[PATH_MAX];
    CHECK(realpath("/proc/self/exe", self) != NULL);
    execl(self, self, argv[1], "limited", (char*)NULL);
    CHECK(0);
  }
  if (strcmp(argv[2], "later") == 0) {
    Exercise(1);
    SetLimit();
  }
  struct rlimit limit;
  CHECK(resource < 0 ||
        (getrlimit(resource, &limit) == 0 && limit.rlim_cur == (rlim_t)kLimitMiB * kMiB));
  Exercise(2);
  UseUpTheLimit();
  return 0;
}
