// SPDX-License-Identifier: BSD-3-Clause
// Programs that static_served_test.py links with an archive. A macro selects the references to the
// allocator:
//
//   USE_MALLOC   malloc and free alone
//   USE_NEW      operator new and operator delete alone
//   USE_NOTHING  nothing: the C library allocates
//
// With REPLACE_NEW the program has all forms of operator new and delete that hold one object. With
// an argument it leaks 1000 bytes. It prints "ran".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBytes = 1000 };

static char text[kBytes];

#ifdef REPLACE_NEW
#include <new>

static int calls = 0;
static void* Get(size_t size) { return ++calls, malloc(size); }
void* operator new(size_t size) { return Get(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Get(size); }
void operator delete(void* p) noexcept { ++calls, free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { ++calls, free(p); }
void operator delete(void* p, size_t) noexcept { ++calls, free(p); }
#endif

__attribute__((noinline)) static void* Allocate(void) {
#if defined(USE_MALLOC)
  return malloc(kBytes);
#elif defined(USE_NEW)
  return new char[kBytes];
#else
  return strdup(text);
#endif
}

__attribute__((noinline)) static int Lose(void) {
  char* volatile object = (char*)Allocate();
  memset(object, 1, kBytes);
  object = NULL;
  return 0;
}

int main(int argc, char** argv) {
  memset(text, 'x', sizeof(text) - 1);
  if (argc > 1) Lose();
#if defined(USE_MALLOC)
  free(Allocate());
#elif defined(USE_NEW)
  delete[] static_cast<char*>(Allocate());
  delete new (std::nothrow) int;
#endif
#ifdef REPLACE_NEW
  // The array forms call the program's forms.
  if (calls != 4 + (argc > 1)) return 3;
#endif
  // The pointer must not stay in a register or on the stack after a call above.
  volatile char over[4000];
  memset((char*)over, 0, sizeof(over));
  puts("ran");
  return argv[0] == NULL;
}
