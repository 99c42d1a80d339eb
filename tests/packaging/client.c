// SPDX-License-Identifier: BSD-3-Clause
// A program of a user who has installed the library: compiled as C and, once more, as C++. It
// prints "client ok" if malloc is the library's, which it checks by the library's own figures.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tcmalloc/tcmalloc.h>
#ifdef __cplusplus
#include <tcmalloc/malloc_extension.h>

#include <new>
#include <string>
#endif

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      _Exit(1);                                                                     \
    }                                                                               \
  } while (0)

enum { kObjects = 10, kBytes = 1000 };

// Checks that objects that were just freed are in this thread's cache.
static void CheckFreedObjects(void) {
  CHECK(tcmalloc_flush_this_thread_cache() >= (size_t)kObjects * kBytes);
}

static void* UseMalloc(void* argument) {
  void* objects[kObjects];
  tcmalloc_flush_this_thread_cache();
  for (int i = 0; i < kObjects; ++i) CHECK((objects[i] = malloc(kBytes)) != NULL);
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
  CheckFreedObjects();
  return argument;
}

// Uses the C library's own calls of malloc.
static void UseStrdup(void) {
  char text[kBytes];
  char* copies[kObjects];
  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = 0;
  tcmalloc_flush_this_thread_cache();
  for (int i = 0; i < kObjects; ++i) CHECK((copies[i] = strdup(text)) != NULL);
  for (int i = 0; i < kObjects; ++i) free(copies[i]);
  CheckFreedObjects();
}

#ifdef __cplusplus
static void UseNew() {
  tcmalloc::MallocExtension::FlushThisThreadCache();
  {
    std::string texts[kObjects];
    for (std::string& text : texts) text.assign(kBytes, 'x');
  }
  CheckFreedObjects();
  bool caught = false;
  try {
    volatile size_t too_much = ~size_t{0} / 2;
    ::operator delete(::operator new(too_much));
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  CHECK(caught);
}
#endif

int main(void) {
  UseMalloc(NULL);
  UseStrdup();
#ifdef __cplusplus
  UseNew();
#endif
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, UseMalloc, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  puts("client ok");
  return 0;
}
