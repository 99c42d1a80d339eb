// SPDX-License-Identifier: BSD-3-Clause
// A process with a second allocator, for two_allocators_test.py.
//
// usage: two_allocators own             it has 1000 objects of its own malloc
//        two_allocators copy LIBRARY    it has 1000 objects of a copy of the library that it loads
//        two_allocators space LIBRARY   it has 1000 of a copy in another namespace (dlmopen)
// then   wait   writes "ready", and waits for the end of stdin
//        cross  frees an object of the second allocator with the first one's free
// Compiled with OWN_MALLOC it has a malloc of its own, like a program with which another allocator
// is linked statically.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../process/check.h"

enum { kObjects = 1000, kBytes = 10000 };

#ifdef OWN_MALLOC
// This allocator never reuses memory.
static char* next;
static size_t left;

void* malloc(size_t size) {
  const size_t bytes = (size + 31) & ~(size_t)15;
  if (bytes > left) {
    left = bytes + ((size_t)4 << 20);
    next = (char*)mmap(NULL, left, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (next == (char*)MAP_FAILED) abort();
  }
  char* const object = next + 16;
  *(size_t*)next = size;
  next += bytes;
  left -= bytes;
  return object;
}
void free(void* object) { (void)object; }
void* calloc(size_t n, size_t size) { return malloc(n * size); }
void* realloc(void* object, size_t size) {
  char* const made = (char*)malloc(size);
  if (object == NULL) return made;
  const size_t before = *(size_t*)((char*)object - 16);
  return memcpy(made, object, before < size ? before : size);
}
#endif

static void* kept[kObjects];

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  void* (*allocate)(size_t) = Malloc;
  void (*release)(void*) = Free;
  const char* then = argv[2];
  if (strcmp(argv[1], "own") != 0) {
    CHECK(argc == 4);
    then = argv[3];
    void* const library = strcmp(argv[1], "copy") == 0
                              ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL)
                              : dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) dprintf(STDERR_FILENO, "%s\n", dlerror());
    CHECK(library != NULL);
    allocate = (void* (*)(size_t))dlsym(library, "malloc");
    release = (void (*)(void*))dlsym(library, "free");
    CHECK(allocate != NULL && allocate != Malloc);
  }
  Exercise(1);
  for (int i = 0; i < kObjects; ++i) {
    kept[i] = allocate(kBytes);
    CHECK(kept[i] != NULL);
    memset(kept[i], 1, kBytes);
  }
  for (int i = 0; i < kObjects; i += 2) release(kept[i]);
  for (int i = 0; i < kObjects; i += 2) kept[i] = allocate(kBytes);
  Exercise(2);
  if (strcmp(then, "cross") == 0) Free(kept[0]);
  dprintf(STDOUT_FILENO, "ready\n");
  char byte;
  if (strcmp(then, "wait") == 0) CHECK(read(STDIN_FILENO, &byte, 1) == 0);
  return 0;
}
