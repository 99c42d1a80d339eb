// SPDX-License-Identifier: BSD-3-Clause

// bench_probe_machine: prints the state of the machine as one line of JSON on standard output.
//
//   {"ping_pong_ns": 210.5, "touch_4k_ns": 610.0, "touch_2m_us": 95.2}
//
// ping_pong_ns   a cache line is written by one processor, then by another, and back. This shows
//                whether the processors share their last-level cache, which on a virtual machine
//                may change while it runs, whatever /sys says. null if there is only one processor.
// touch_4k_ns    the first touch of a page of 4 KiB
// touch_2m_us    the first touch of each page of an aligned block of 2 MiB that may be a hugepage
//
// Each is the median of many samples, so that an interruption has no effect. Takes about 60 ms.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum {
  kPageBytes = 4096,
  kHugepageBytes = 2 << 20,
  // The number is odd, so that the median is one of the samples.
  kSamples = 15,
  kPagesOfASample = 512,
  kExchangesOfASample = 500,
};

static double NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int CompareDoubles(const void* a, const void* b) {
  const double left = *(const double*)a;
  const double right = *(const double*)b;
  return (left > right) - (left < right);
}

static double Median(double* samples) {
  qsort(samples, kSamples, sizeof(samples[0]), CompareDoubles);
  return samples[kSamples / 2];
}

// ---- The exchange of a cache line. ----

// If it is even, the first thread writes next; if it is odd, the second one. No other variable is
// on its cache lines.
static _Alignas(256) atomic_uint turn;
static const unsigned kLastTurn = 2 * kSamples * kExchangesOfASample;

static void PinTo(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

static void TakeTurn(unsigned mine) {
  // Acquire and release are what programs do with a lock.
  while (atomic_load_explicit(&turn, memory_order_acquire) != mine) {
  }
  atomic_store_explicit(&turn, mine + 1, memory_order_release);
}

static void* Second(void* processor) {
  PinTo(*(const int*)processor);
  for (unsigned i = 1; i < kLastTurn; i += 2) TakeTurn(i);
  return NULL;
}

// Returns the nanoseconds for a turn of each of the two first usable processors; below 0 if there
// is only one.
static double PingPongNs(void) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return -1;
  int processors[2];
  int found = 0;
  for (int i = 0; i < CPU_SETSIZE && found < 2; ++i) {
    if (CPU_ISSET(i, &usable)) processors[found++] = i;
  }
  if (found < 2) return -1;
  pthread_t second;
  if (pthread_create(&second, NULL, Second, &processors[1]) != 0) return -1;
  PinTo(processors[0]);
  double samples[kSamples];
  unsigned mine = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double start = NowNs();
    for (int j = 0; j < kExchangesOfASample; ++j, mine += 2) TakeTurn(mine);
    samples[i] = (NowNs() - start) / kExchangesOfASample;
  }
  pthread_join(second, NULL);
  sched_setaffinity(0, sizeof(usable), &usable);
  return Median(samples);
}

// ---- First touches. ----

// Returns the nanoseconds for the first touch of all pages of 2 MiB; below 0 if there is no memory.
static double TouchNs(int advice) {
  const size_t bytes = (size_t)(kSamples + 1) * kHugepageBytes;
  char* const mapped =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return -1;
  char* block =
      (char*)(((uintptr_t)mapped + kHugepageBytes - 1) & ~(uintptr_t)(kHugepageBytes - 1));
  madvise(block, (size_t)kSamples * kHugepageBytes, advice);
  double samples[kSamples];
  for (int i = 0; i < kSamples; ++i, block += kHugepageBytes) {
    const double start = NowNs();
    for (int j = 0; j < kPagesOfASample; ++j) *(volatile char*)(block + j * kPageBytes) = 1;
    samples[i] = NowNs() - start;
  }
  munmap(mapped, bytes);
  return Median(samples);
}

static void PrintFigure(const char* before, const char* name, double value) {
  printf("%s\"%s\": ", before, name);
  if (value < 0) {
    printf("null");
  } else {
    printf("%.1f", value);
  }
}

int main(void) {
  _Static_assert(kPagesOfASample * kPageBytes == kHugepageBytes, "a sample is 2 MiB");
  const double touch_4k = TouchNs(MADV_NOHUGEPAGE);
  const double touch_2m = TouchNs(MADV_HUGEPAGE);
  PrintFigure("{", "ping_pong_ns", PingPongNs());
  PrintFigure(", ", "touch_4k_ns", touch_4k < 0 ? touch_4k : touch_4k / kPagesOfASample);
  PrintFigure(", ", "touch_2m_us", touch_2m < 0 ? touch_2m : touch_2m / 1e3);
  printf("}\n");
  return 0;
}
