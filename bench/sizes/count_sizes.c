// SPDX-License-Identifier: BSD-3-Clause
// A library to preload that counts the sizes a program requests. It works with any program that
// allocates by the functions below. At exit it appends to the file $COUNT_SIZES a line "# PROGRAM
// PEAK_BYTES", then a line "SIZE REQUESTS LIVE" for each size: how often it was requested, and how
// many objects of it were live when the live bytes were at their peak (within 1/64).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void* __libc_malloc(size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

enum { kMost = 1 << 16 };  // Larger requests count as one size, kMost + 1.
static _Atomic uint64_t requests[kMost + 2];
static _Atomic int64_t live[kMost + 2];
static int64_t at_peak[kMost + 2];
static _Atomic int64_t live_bytes;
static _Atomic int64_t copied_at;
static atomic_flag copying = ATOMIC_FLAG_INIT;

// The header before each object.
struct Header {
  uint64_t size;
  uint64_t offset;  // The distance from the start of the C library's object.
};

static size_t Place(size_t size) { return size <= kMost ? size : kMost + 1; }

static void* Record(char* start, size_t offset, size_t size) {
  if (start == NULL) return NULL;
  struct Header* header = (struct Header*)(start + offset) - 1;
  header->size = size;
  header->offset = offset;
  atomic_fetch_add_explicit(&requests[Place(size)], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&live[Place(size)], 1, memory_order_relaxed);
  const int64_t now =
      atomic_fetch_add_explicit(&live_bytes, (int64_t)size, memory_order_relaxed) + (int64_t)size;
  if (now > copied_at + copied_at / 64 && !atomic_flag_test_and_set(&copying)) {
    copied_at = now;
    for (size_t i = 0; i < kMost + 2; ++i) at_peak[i] = live[i];
    atomic_flag_clear(&copying);
  }
  return header + 1;
}

void* malloc(size_t size) { return Record(__libc_malloc(size + 16), 16, size); }

void free(void* pointer) {
  if (pointer == NULL) return;
  struct Header* header = (struct Header*)pointer - 1;
  atomic_fetch_sub_explicit(&live[Place(header->size)], 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&live_bytes, (int64_t)header->size, memory_order_relaxed);
  __libc_free((char*)pointer - header->offset);
}

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
  void* pointer = malloc(bytes);
  if (pointer != NULL) memset(pointer, 0, bytes);
  return pointer;
}

void* realloc(void* pointer, size_t size) {
  if (pointer == NULL) return malloc(size);
  if (size == 0) return free(pointer), NULL;
  const size_t old = ((struct Header*)pointer - 1)->size;
  void* moved = malloc(size);
  if (moved == NULL) return NULL;
  memcpy(moved, pointer, old < size ? old : size);
  free(pointer);
  return moved;
}

void* memalign(size_t alignment, size_t size) {
  if (alignment <= 16) return malloc(size);
  return Record(__libc_memalign(alignment, size + alignment), alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  *result = memalign(alignment, size);
  return *result == NULL ? ENOMEM : 0;
}
void* valloc(size_t size) { return memalign(4096, size); }
void* pvalloc(size_t size) { return memalign(4096, (size + 4095) & ~(size_t)4095); }
size_t malloc_usable_size(void* pointer) {
  return pointer == NULL ? 0 : ((struct Header*)pointer - 1)->size;
}

__attribute__((destructor)) static void Write(void) {
  const char* path = getenv("COUNT_SIZES");
  if (path == NULL) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  static char text[(kMost + 3) * 32];
  int length = sprintf(text, "# %s %lld\n", program_invocation_short_name, (long long)copied_at);
  for (size_t i = 0; i < kMost + 2; ++i) {
    if (requests[i] == 0) continue;
    length += sprintf(text + length, "%zu %llu %lld\n", i, (unsigned long long)requests[i],
                      (long long)at_peak[i]);
  }
  if (write(file, text, (size_t)length) < 0) return;
  close(file);
}
