// SPDX-License-Identifier: BSD-3-Clause
//
// What the small programs of this folder share: a check that ends the program, proof that the program
// runs on the library under test, and objects with contents that are checked. C and C++; needs
// _GNU_SOURCE and libc alone.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Ends the program with status 1 when `condition` does not hold. Allocates nothing.
#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) CheckFailed(__FILE__, __LINE__, #condition);                     \
  } while (0)

static inline void CheckFailed(const char* file, int line, const char* condition) {
  dprintf(STDERR_FILENO, "%s:%d: process %d: %s does not hold\n", file, line, (int)getpid(),
          condition);
  _exit(1);
}

// Ends the program unless `malloc` and `free` lead into the file that TCMALLOC_TEST_LIBRARY names.
static inline void RequireLibraryUnderTest(void) {
  const char* expected = getenv("TCMALLOC_TEST_LIBRARY");
  CHECK(expected != NULL);
  char expected_path[PATH_MAX];
  CHECK(realpath(expected, expected_path) != NULL);
  const char* const names[] = {"malloc", "free", "calloc", "realloc", "memalign"};
  for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    void* function = dlsym(RTLD_DEFAULT, names[i]);
    CHECK(function != NULL);
    Dl_info place;
    CHECK(dladdr(function, &place) != 0);
    char actual_path[PATH_MAX];
    CHECK(realpath(place.dli_fname, actual_path) != NULL);
    if (strcmp(actual_path, expected_path) != 0) {
      dprintf(STDERR_FILENO, "%s comes from %s, not from %s\n", names[i], actual_path,
              expected_path);
      _exit(1);
    }
  }
}

// Allocation through volatile pointers: the compiler must not pair malloc with free and drop both.
static void* (*volatile Malloc)(size_t) = malloc;
static void (*volatile Free)(void*) = free;
static void* (*volatile Calloc)(size_t, size_t) = calloc;
static void* (*volatile Realloc)(void*, size_t) = realloc;

// An object of `size` bytes that are all marked with `tag`.
static inline char* NewMarked(size_t size, unsigned tag) {
  char* object = (char*)Malloc(size);
  CHECK(object != NULL);
  memset(object, (int)(tag & 0xff), size);
  return object;
}
static inline void CheckMarked(const char* object, size_t size, unsigned tag) {
  for (size_t i = 0; i < size; ++i) CHECK((unsigned char)object[i] == (tag & 0xff));
}
static inline void FreeMarked(char* object, size_t size, unsigned tag) {
  CheckMarked(object, size, tag);
  Free(object);
}

// A little of everything: sizes from 1 byte to 1 MiB through malloc, calloc, realloc and free.
static inline void Exercise(unsigned tag) {
  enum { kCount = 40 };
  char* objects[kCount];
  size_t sizes[kCount];
  size_t size = 1;
  for (int i = 0; i < kCount; ++i) {
    sizes[i] = size;
    if (i % 3 == 1) {
      objects[i] = (char*)Calloc(1, size);
      CHECK(objects[i] != NULL);
      CheckMarked(objects[i], size, 0);
      memset(objects[i], (int)((tag + i) & 0xff), size);
    } else {
      objects[i] = NewMarked(size, tag + i);
    }
    size += size / 2 < 32 * 1024 ? size / 2 + 1 : 32 * 1024;
  }
  for (int i = 0; i < kCount; i += 2) {
    objects[i] = (char*)Realloc(objects[i], sizes[i] * 2);
    CHECK(objects[i] != NULL);
    CheckMarked(objects[i], sizes[i], tag + i);
    memset(objects[i], (int)((tag + i) & 0xff), sizes[i] * 2);
    sizes[i] *= 2;
  }
  for (int i = 0; i < kCount; ++i) FreeMarked(objects[i], sizes[i], tag + i);
}

// Resident bytes of the process, from the kernel. Allocates nothing.
static inline size_t ResidentBytes(void) {
  char text[256];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0);
  ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  CHECK(length > 0);
  text[length] = '\0';
  size_t total;
  size_t resident;
  CHECK(sscanf(text, "%zu %zu", &total, &resident) == 2);
  return resident * (size_t)sysconf(_SC_PAGESIZE);
}
