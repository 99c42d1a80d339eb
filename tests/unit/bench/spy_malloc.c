// SPDX-License-Identifier: BSD-3-Clause

// Counts calls of the C library's malloc and free. At exit it writes the numbers of calls of
// malloc, of free and of sized operator delete to the file named by SPY_OUTPUT. With SPY_ABORT set
// it aborts instead, like an allocator that has found an error.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void* __libc_malloc(size_t size);
void __libc_free(void* object);

static _Atomic uint64_t mallocs;
static _Atomic uint64_t frees;
static _Atomic uint64_t sized_deletes;

void* malloc(size_t size) {
  ++mallocs;
  return __libc_malloc(size);
}

void free(void* object) {
  if (object != NULL) ++frees;
  __libc_free(object);
}

// operator delete(void*, size_t)
void SizedDelete(void* object, size_t size) __asm__("_ZdlPvm");
void SizedDelete(void* object, size_t size) {
  ++sized_deletes;
  free(object);
}

__attribute__((destructor)) static void Report(void) {
  char line[128];
  const char* const path = getenv("SPY_OUTPUT");
  if (getenv("SPY_ABORT") != NULL) abort();
  if (path == NULL) return;
  const int length = snprintf(line, sizeof(line), "%llu %llu %llu\n", (unsigned long long)mallocs,
                              (unsigned long long)frees, (unsigned long long)sized_deletes);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || write(file, line, (size_t)length) != length) _exit(3);
  close(file);
}
