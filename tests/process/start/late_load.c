// SPDX-License-Identifier: BSD-3-Clause
// Loads the allocator late: by dlopen, in a program that has been running on the C library's
// malloc, which stays in use. The late allocator may then get objects that are older than it.
// Argument: "local" or "global". LIBRARY_UNDER_TEST names the library.
#define _GNU_SOURCE
#include <malloc.h>

#include "../check.h"

typedef struct {
  void* (*allocate)(size_t);
  void (*release)(void*);
  void* (*resize)(void*, size_t);
  size_t (*usable)(void*);
} Allocator;

static Allocator late;
static pthread_barrier_t both;

static void UseLate(unsigned tag) {
  for (size_t size = 1; size < 4 << 20; size += size / 2 + 1) {
    char* object = (char*)late.allocate(size);
    CHECK(object != NULL && late.usable(object) >= size);
    memset(object, (int)(tag & 0xff), size);
    object = (char*)late.resize(object, size * 2);
    CheckMarked(object, size, tag);
    late.release(object);
  }
}

// Passes objects of the C library to functions of the late allocator.
static void PassObjectsAcross(void) {
  for (size_t size = 1; size < 4 << 20; size += size / 2 + 1) {
    late.release(NewMarked(size, 1));
    char* object = NewMarked(size, 0xa1);
    CHECK(late.usable(object) >= size);
    object = (char*)late.resize(object, size + 100);
    CHECK(object != NULL);
    CheckMarked(object, size, 0xa1);
    late.release(object);
  }
}

static void* OlderThread(void* argument) {
  Exercise(11);
  char* mine = NewMarked(5000, 0xa2);
  pthread_barrier_wait(&both);  // The library is loaded meanwhile.
  pthread_barrier_wait(&both);
  UseLate(0xa3);
  late.release(mine);
  Exercise(12);
  pthread_barrier_wait(&both);  // The library is closed meanwhile.
  pthread_barrier_wait(&both);
  Exercise(13);
  return argument;
}

static void* YoungerThread(void* argument) {
  UseLate(0xa4);
  PassObjectsAcross();
  Exercise(14);
  return argument;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const int visibility = strcmp(argv[1], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  const char* library = getenv("LIBRARY_UNDER_TEST");
  CHECK(library != NULL);
  CHECK(!IsMapped("libtcmalloc"));
  char* old_objects[3] = {NewMarked(20, 0xa5), NewMarked(3000, 0xa6), NewMarked(1 << 20, 0xa7)};
  CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
  const pthread_t older = StartThread(OlderThread, NULL);
  pthread_barrier_wait(&both);

  void* handle = dlopen(library, RTLD_NOW | visibility);
  if (handle == NULL) dprintf(STDERR_FILENO, "%s\n", dlerror());
  CHECK(handle != NULL);
  CHECK(IsMapped("libtcmalloc"));
  late.allocate = (void* (*)(size_t))dlsym(handle, "malloc");
  late.release = (void (*)(void*))dlsym(handle, "free");
  late.resize = (void* (*)(void*, size_t))dlsym(handle, "realloc");
  late.usable = (size_t (*)(void*))dlsym(handle, "malloc_usable_size");
  CHECK(late.allocate != NULL && late.allocate != malloc);
  CHECK(late.release != NULL && late.resize != NULL && late.usable != NULL);
  Exercise(15);
  UseLate(0xa8);
  PassObjectsAcross();
  late.release(old_objects[0]);
  late.release(late.resize(old_objects[1], 6000));
  late.release(old_objects[2]);
  pthread_barrier_wait(&both);

  pthread_t younger[3];
  for (int i = 0; i < 3; ++i) younger[i] = StartThread(YoungerThread, NULL);
  for (int i = 0; i < 3; ++i) JoinThread(younger[i]);
  char* from_late = (char*)late.allocate(1000);
  memset(from_late, 1, 1000);
  pthread_barrier_wait(&both);

  // Threads that used the library are alive; they exit after dlclose.
  CHECK(dlclose(handle) == 0);
  Exercise(16);
  pthread_barrier_wait(&both);
  JoinThread(older);

  // Loads it once more; this time it stays until the process exits.
  handle = dlopen(library, RTLD_NOW | visibility);
  CHECK(handle != NULL);
  Exercise(17);
  return 0;
}
