// SPDX-License-Identifier: BSD-3-Clause
// Included first. Declares what the programs take from glibc's <malloc.h> and other C libraries
// lack, and checks that the program was linked with the C library that it was compiled for.
#pragma once

#include <features.h>
#include <stddef.h>
#include <stdlib.h>

#ifndef __GLIBC__
struct mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 mallinfo2(void);
int malloc_trim(size_t pad);

__attribute__((weak)) extern void* __libc_stack_end;  // glibc's

__attribute__((constructor)) static void CheckCLibrary(void) {
  if (&__libc_stack_end != NULL) abort();
}
#endif
