// SPDX-License-Identifier: BSD-3-Clause
//
// A library to preload that forwards every call to the C library, except for one flaw, which
// TCMALLOC_TEST_FLAW names. It tests the program tests: each flaw must make them fail, and `none`
// must not.
//
//   none     no flaw
//   quiet    no report at exit, as if malloc had never been called
//   realloc  an object that grows loses a byte of its old contents
//   text     as realloc, if that byte is part of a text: pointers stay intact, the output changes
//   calloc   memory is not all zero
//   overlap  objects of middle size share memory with older ones that are still in use
//   thread   as overlap, for allocations of threads other than the first
//   child    as overlap, for allocations of forked children
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* object, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* object);

enum Flaw { kNone, kQuiet, kRealloc, kText, kCalloc, kOverlap, kThread, kChild };

// Overlapping objects are taken from this ring, one after another and then from the start again. A
// word with the size of the object precedes each.
enum { kRingBytes = 1 << 18, kHeaderBytes = 16, kLeast = 80, kMost = 2048 };
static _Alignas(16) char ring[kRingBytes + 2 * kMost];
static size_t ring_position;

static enum Flaw flaw = kNone;
static pid_t first_process;
static size_t bytes_asked;

static int FromRing(const void* object) {
  return (uintptr_t)object - (uintptr_t)ring < sizeof ring;
}

static size_t RingSize(const void* object) {
  size_t size;
  memcpy(&size, (const char*)object - kHeaderBytes, sizeof size);
  return size <= kMost ? size : kLeast;  // The header may have been overwritten.
}

// This function is defined here because a program may contain another allocator, whose function
// would be found before the C library's.
size_t malloc_usable_size(void* object) {
  static size_t (*usable_size)(void*);
  if (object == NULL) return 0;
  if (FromRing(object)) return RingSize(object);
  if (usable_size == NULL) {
    void* library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    *(void**)&usable_size = dlsym(library, "malloc_usable_size");
  }
  return usable_size(object);
}

static int IsFlawed(size_t size) {
  if (size < kLeast || size > kMost) return 0;
  switch (flaw) {
    case kOverlap:
      return 1;
    case kThread:
      return gettid() != getpid();
    case kChild:
      return getpid() != first_process;
    default:
      return 0;
  }
}

// Returns whether the 16 bytes around `middle` are printable.
static int IsText(const char* middle) {
  for (int i = -8; i < 8; ++i) {
    if (middle[i] < ' ' || middle[i] > '~') return 0;
  }
  return 1;
}

void* malloc(size_t size) {
  __atomic_fetch_add(&bytes_asked, size, __ATOMIC_RELAXED);
  if (!IsFlawed(size)) return __libc_malloc(size);
  size_t bytes = (size + kHeaderBytes + 15) & ~(size_t)15;
  size_t start =
      __atomic_fetch_add(&ring_position, bytes, __ATOMIC_RELAXED) % kRingBytes & ~(size_t)15;
  memcpy(ring + start, &size, sizeof size);
  return ring + start + kHeaderBytes;
}

void free(void* object) {
  if (!FromRing(object)) __libc_free(object);
}

void* calloc(size_t count, size_t size) {
  char* object = __libc_calloc(count, size);
  if (flaw == kCalloc && object != NULL && count * size >= kLeast) object[count * size - 1] = 1;
  return object;
}

void* realloc(void* object, size_t size) {
  size_t old_size = malloc_usable_size(object);
  __atomic_fetch_add(&bytes_asked, size, __ATOMIC_RELAXED);
  if (FromRing(object)) {
    void* moved = malloc(size);
    if (moved != NULL) memcpy(moved, object, old_size < size ? old_size : size);
    return moved;
  }
  char* grown = __libc_realloc(object, size);
  if (grown == NULL || old_size < 1024 || size <= old_size) return grown;
  char* middle = grown + old_size / 2;
  if (flaw == kRealloc || (flaw == kText && IsText(middle))) *middle ^= 1;
  return grown;
}

void* memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

void* aligned_alloc(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

int posix_memalign(void** result, size_t alignment, size_t size) {
  void* object = __libc_memalign(alignment, size);
  if (object == NULL) return ENOMEM;
  *result = object;
  return 0;
}

__attribute__((constructor)) static void Start(void) {
  static const char* const kNames[] = {"none",   "quiet",   "realloc", "text",
                                       "calloc", "overlap", "thread",  "child"};
  const char* name = getenv("TCMALLOC_TEST_FLAW");
  for (size_t i = 0; name != NULL && i < sizeof kNames / sizeof *kNames; ++i) {
    if (strcmp(name, kNames[i]) == 0) flaw = (enum Flaw)i;
  }
  first_process = getpid();
}

__attribute__((destructor)) static void Report(void) {
  char line[100];
  if (flaw == kQuiet || getenv("MALLOCSTATS") == NULL) return;
  int length =
      snprintf(line, sizeof line, "MALLOC: = %zu (some MiB) Bytes asked for\n", bytes_asked);
  if (write(STDERR_FILENO, line, (size_t)length) != length) _exit(1);
}
