// SPDX-License-Identifier: BSD-3-Clause
//
// A program that uses up all addresses of a 32-bit process: it gets most of them, including the
// upper half, gets ENOMEM when they are used up, and can allocate other sizes once it has freed.
// Memory is touched sparsely: at most 130 MiB are resident.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>

#include "../check.h"

enum { kMiB = 1 << 20 };

// Allocates objects of `size` until that fails, frees them all, and returns their MiB.
static size_t UseUp(size_t size) {
  void** newest = NULL;  // A list through the objects' first words.
  uintptr_t highest = 0;
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
  // Sizes beyond any address space fail in every way.
  errno = 0;
  CHECK(Calloc(1 << 16, 1 << 16) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(Realloc(newest, SIZE_MAX - 4096) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(Malloc(PTRDIFF_MAX) == NULL && errno == ENOMEM);
  CHECK(highest > UINTPTR_MAX / 2);
  size_t freed = 0;
  while (newest != NULL) {
    void** next = (void**)*newest;
    CHECK(((uintptr_t*)((char*)newest + size))[-1] == ((uintptr_t)newest ^ size));
    Free(newest);
    newest = next;
    ++freed;
  }
  CHECK(freed == count);
  return count * (size / 1024) / 1024;
}

int main(void) {
  RequireLibraryUnderTest();
  Exercise(1);
  // Sizes that need much memory in one piece come after those that left smaller pieces, but not
  // after small objects, whose records stay here and there. A 64-bit kernel leaves a process nearly
  // 4 GiB, a 32-bit one 3 GiB.
  const struct {
    size_t size;
    size_t least_mib;
  } rounds[] = {
      {100 * kMiB, 2400}, {700 * kMiB, 1400}, {kMiB, 2400}, {256 << 10, 2400}, {kMiB, 2400}};
  for (unsigned i = 0; i < sizeof(rounds) / sizeof(rounds[0]); ++i) {
    const size_t mib = UseUp(rounds[i].size);
    dprintf(STDOUT_FILENO, "objects of %zu bytes: %zu MiB\n", rounds[i].size, mib);
    CHECK(mib >= rounds[i].least_mib);
    Exercise(2);
  }
  return 0;
}
