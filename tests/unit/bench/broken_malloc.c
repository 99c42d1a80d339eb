// SPDX-License-Identifier: BSD-3-Clause

// An allocator with two errors that a benchmark program should notice: every seventh malloc of a
// thread returns the object of the thread's previous malloc again, if it is large enough, and
// realloc does not copy the last 8 bytes. BROKEN_SIZES=SMALLEST-LARGEST restricts the first error
// to requests of these sizes. Memory is never reused.
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kGrain = 16, kPeriod = 7, kForgotten = 8 };
static const size_t kArenaBytes = (size_t)1 << 30;

static char* arena;
static _Atomic size_t used;
static size_t smallest = 1;
static size_t largest = SIZE_MAX;
static _Thread_local unsigned calls;
static _Thread_local void* last;
static _Thread_local size_t last_size;

// Runs before main, while there is one thread: libstdc++ allocates then.
static void Initialize(void) {
  arena = mmap(NULL, kArenaBytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) abort();
  const char* const sizes = getenv("BROKEN_SIZES");
  if (sizes != NULL && sscanf(sizes, "%zu-%zu", &smallest, &largest) != 2) abort();
}

// The word before an object holds its size.
static void* Carve(size_t alignment, size_t size) {
  if (arena == NULL) Initialize();
  const size_t bytes = (size + kGrain - 1) / kGrain * kGrain + kGrain + alignment;
  const size_t start = atomic_fetch_add_explicit(&used, bytes, memory_order_relaxed);
  if (start + bytes > kArenaBytes) return NULL;
  char* const object =
      (char*)(((uintptr_t)arena + start + kGrain + alignment - 1) / alignment * alignment);
  memcpy(object - sizeof(size), &size, sizeof(size));
  return object;
}

void* malloc(size_t size) {
  if (size >= smallest && size <= largest) {
    if (++calls >= kPeriod && size <= last_size) {
      calls = 0;
      return last;
    }
    last_size = size;
    return last = Carve(kGrain, size);
  }
  return Carve(kGrain, size);
}

void free(void* object) {}

void* calloc(size_t count, size_t size) { return Carve(kGrain, count * size); }

void* realloc(void* object, size_t size) {
  void* const moved = Carve(kGrain, size);
  size_t old_size = 0;
  if (object != NULL) memcpy(&old_size, (char*)object - sizeof(old_size), sizeof(old_size));
  const size_t copied = old_size < size ? old_size : size;
  if (moved != NULL && copied > kForgotten) memcpy(moved, object, copied - kForgotten);
  return moved;
}

void* aligned_alloc(size_t alignment, size_t size) { return Carve(alignment, size); }
