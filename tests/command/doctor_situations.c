// SPDX-License-Identifier: BSD-3-Clause
// Processes for 'tcmalloc doctor', one for each reason why the resident memory of a process is
// large:
//
//   process_doctor SITUATION
//
// prepares the situation, prints "ready", and waits until its standard input ends. Built without
// the allocator.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { kMiB = 1 << 20, kMany = 1000000 };

static void* objects[kMany];
static pthread_barrier_t prepared;

static void* Touched(size_t bytes) {
  void* const memory = malloc(bytes);
  if (memory == NULL) exit(1);
  return memset(memory, 1, bytes);
}

static void* Mapped(size_t bytes, int flags, int file) {
  void* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) exit(1);
  return memory;
}

static void CallIfThere(const char* name) {
  size_t (*function)(void) = NULL;
  *(void**)&function = dlsym(RTLD_DEFAULT, name);
  if (function != NULL) function();
}

static void RunThreads(void* (*run)(void*), unsigned n) {
  pthread_t thread;
  pthread_barrier_init(&prepared, NULL, n + 1);
  for (unsigned i = 0; i < n; ++i) {
    if (pthread_create(&thread, NULL, run, NULL) != 0) exit(1);
  }
  pthread_barrier_wait(&prepared);
}

static void* Wait(void) {
  pthread_barrier_wait(&prepared);
  for (;;) pause();
  return NULL;
}

// One object in 50 survives.
static void Survivors(void) {
  for (int i = 0; i < kMany; ++i) objects[i] = Touched(96);
  for (int i = 0; i < kMany; ++i) {
    if (i % 50 != 0) free(objects[i]);
  }
  CallIfThere("tcmalloc_flush_thread_caches");
  CallIfThere("tcmalloc_release_free_memory");
}

// Threads that have freed much memory, and sleep.
static void* FillCache(void* unused) {
  enum { kHeld = 500, kRounds = 20 };
  static __thread void* held[kHeld];
  (void)unused;
  for (size_t bytes = 16; bytes <= 32768; bytes += bytes < 128 ? 16 : bytes / 8) {
    const int n = bytes < 4096 ? kHeld : kHeld / 10;
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < n; ++i) held[i] = Touched(bytes);
      for (int i = 0; i < n; ++i) free(held[i]);
    }
  }
  return Wait();
}

static void IdleCaches(void) {
  RunThreads(&FillCache, 16);
  CallIfThere("tcmalloc_flush_central_caches");
  CallIfThere("tcmalloc_release_free_memory");
}

// The program's own memory, freed with MADV_FREE.
static void LazilyFreed(void) {
  const size_t bytes = 64 * kMiB;
  void* const memory = Mapped(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  memset(memory, 1, bytes);
  if (madvise(memory, bytes, MADV_FREE) != 0) exit(77);
}

// Hugepages that khugepaged makes of a heap that was mostly released.
static void Hugepages(void) {
  enum { kBuffers = 512, kBytes = 256 << 10 };
  for (int i = 0; i < kBuffers; ++i) objects[i] = Touched(kBytes);
  for (int i = 0; i < kBuffers; ++i) {
    if (i % 16 != 0) free(objects[i]);
  }
  CallIfThere("tcmalloc_release_free_memory");
  const uintptr_t huge = 2 * kMiB;
  int collapsed = 0;
  for (int i = 0; i < kBuffers; i += 16) {
    void* const start = (void*)((uintptr_t)objects[i] & ~(huge - 1));
    if (madvise(start, huge, MADV_COLLAPSE) == 0) ++collapsed;
  }
  if (collapsed < 10) exit(77);
}

static void* Leak(void* unused) {
  (void)unused;
  for (;;) {
    Touched(1000);
    usleep(100);
  }
  return NULL;
}

static void Leaking(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, &Leak, NULL) != 0) exit(1);
}

// Allocates and frees all the time, small and large objects.
static void* Churn(void* seed) {
  enum { kHeld = 2000 };
  static __thread void* held[kHeld];
  unsigned state = (unsigned)(uintptr_t)seed;
  for (uint64_t i = 0;; ++i) {
    if (i == 10 * kHeld) pthread_barrier_wait(&prepared);
    state = state * 1664525u + 1013904223u;
    void** const slot = &held[(state >> 8) % kHeld];
    free(*slot);
    *slot = Touched((state >> 20) % 50 == 0 ? 300000 : 8 + (state >> 16) % 3000);
  }
  return NULL;
}

static void Busy(void) {
  enum { kThreads = 2 };
  pthread_t thread;
  pthread_barrier_init(&prepared, NULL, kThreads + 1);
  for (uintptr_t i = 1; i <= kThreads; ++i) {
    if (pthread_create(&thread, NULL, &Churn, (void*)i) != 0) exit(1);
  }
  pthread_barrier_wait(&prepared);
}

static void ProgramMemory(void) {
  const size_t bytes = 64 * kMiB;
  memset(Mapped(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1), 1, bytes);
}

static void SharedMemory(void) {
  const size_t bytes = 64 * kMiB;
  const int file = memfd_create("doctor", 0);
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0) exit(1);
  memset(Mapped(bytes, MAP_SHARED, file), 1, bytes);
}

static void* UseStack(void* unused) {
  volatile char frame[kMiB];
  (void)unused;
  for (size_t i = 0; i < sizeof(frame); i += 1024) frame[i] = 1;
  return Wait();
}

static void Stacks(void) { RunThreads(&UseStack, 50); }

// The environment sets a large retention, and forbids release.
static void Retained(void) {
  for (int i = 0; i < 200; ++i) objects[i] = Touched(kMiB / 2);
  for (int i = 0; i < 200; ++i) free(objects[i]);
}

// An object or two of each size, in many threads.
static void* OneOfEach(void* unused) {
  (void)unused;
  for (size_t bytes = 8; bytes <= 65536; bytes += bytes < 1024 ? 16 : bytes / 8) {
    void* many[40];
    for (int i = 0; i < 40; ++i) many[i] = Touched(bytes);
    for (int i = 1; i < 40; ++i) free(many[i]);
  }
  CallIfThere("tcmalloc_flush_this_thread_cache");
  return Wait();
}

static void ManyClasses(void) {
  RunThreads(&OneOfEach, 4);
  CallIfThere("tcmalloc_release_free_memory");
}

// The environment sets a small sampling interval.
static void Sampled(void) {
  for (int i = 0; i < 10000; ++i) objects[i] = Touched(200);
}

static void Held(void) {
  for (int i = 0; i < 64; ++i) objects[i] = Touched(kMiB);
}

int main(int argc, char** argv) {
  const struct {
    const char* name;
    void (*prepare)(void);
  } situations[] = {
      {"survivors", &Survivors},
      {"idle_caches", &IdleCaches},
      {"lazily_freed", &LazilyFreed},
      {"hugepages", &Hugepages},
      {"leak", &Leaking},
      {"program_memory", &ProgramMemory},
      {"shared_memory", &SharedMemory},
      {"stacks", &Stacks},
      {"retained", &Retained},
      {"many_classes", &ManyClasses},
      {"sampled", &Sampled},
      {"held", &Held},
      {"busy", &Busy},
  };
  for (size_t i = 0; i < sizeof(situations) / sizeof(*situations); ++i) {
    if (argc != 2 || strcmp(argv[1], situations[i].name) != 0) continue;
    situations[i].prepare();
    if (write(1, "ready\n", 6) != 6) return 1;
    char byte;
    while (read(0, &byte, 1) > 0) continue;
    _exit(0);
  }
  return 2;
}
