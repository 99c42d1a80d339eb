// SPDX-License-Identifier: BSD-3-Clause
// Linked statically with the allocator; compiled as C and, once more, as C++.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>

#include "../check.h"

#ifdef __cplusplus
#include <new>
#endif

// Only this allocator has these names: the program does not link without it.
IN_C void* tc_malloc(size_t size);
IN_C void tc_free(void* object);
IN_C size_t tc_malloc_size(void* object);

static void* Work(void* argument) {
  Exercise(1);
  tc_free(NewMarked(1000, 2));
  return argument;
}

int main(void) {
  // malloc is the allocator's as well: its own statistics count what malloc returns, and the byte
  // after an object of 16 belongs to the next object, where the C library keeps a header.
  const size_t before = mallinfo2().uordblks;
  void* object = Malloc(50 << 20);
  CHECK(mallinfo2().uordblks >= before + (50 << 20));
  CHECK(tc_malloc_size(object) == malloc_usable_size(object));
  Free(object);
  CHECK(mallinfo2().uordblks == before);
  void* small = Malloc(16);
  CHECK(malloc_usable_size(small) == 16);
  Free(small);

  char* line = strdup("the C library's own calls come here, too");
  CHECK(tc_malloc_size(line) >= strlen(line) + 1);
  Free(line);

  errno = 0;
  CHECK(Malloc(PTRDIFF_MAX) == NULL && errno == ENOMEM);
  Work(NULL);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) threads[i] = StartThread(Work, NULL);
  for (int i = 0; i < 4; ++i) JoinThread(threads[i]);
#ifdef __cplusplus
  int* volatile numbers = new int[1000];
  CHECK(tc_malloc_size(numbers) >= 1000 * sizeof(int));
  delete[] numbers;
  bool caught = false;
  try {
    volatile size_t too_much = SIZE_MAX / 2;
    ::operator delete(::operator new(too_much));
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  CHECK(caught);
#endif
  puts("ran");
  return 0;
}
