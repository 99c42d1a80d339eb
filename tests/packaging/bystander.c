// SPDX-License-Identifier: BSD-3-Clause
// A program that calls neither malloc nor any function of the library: only the C library allocates
// for it. It prints "client ok" if the library serves these allocations, too.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// The reference is weak: the linker neither keeps a shared library for it nor takes an object from
// an archive.
__attribute__((weak)) size_t tc_malloc_size(void* object);

int main(void) {
  char text[1000];
  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = 0;
  if (tc_malloc_size == NULL || tc_malloc_size(strdup(text)) < sizeof(text)) {
    puts("the allocator is not linked");
    return 1;
  }
  puts("client ok");
  return 0;
}
