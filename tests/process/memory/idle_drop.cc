// SPDX-License-Identifier: BSD-3-Clause
//
// idle_drop alone|threads|threads_first|held: a program allocates 300 MiB in objects of mixed
// sizes, frees the first 250 MiB of them, and calls the allocator no more. Ten seconds later it has
// released memory, by default.
//   alone          one thread: at most twice the live bytes and 16 MiB
//   threads        eight threads allocate and free, and sleep: 1.5 times the live bytes and 16 MiB
//   threads_first  the main thread allocates and frees while the eight sleep: the same bound
//   held           nothing may be released (TCMALLOC_RELEASE_RATE=0), which shows that the other
//                  modes prove something
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBytes = 300 * kMiB;
constexpr size_t kLiveBytes = 50 * kMiB;
constexpr size_t kThreads = 8;
constexpr uint64_t kSeed = 20261124;
constexpr size_t kMostObjects = size_t{4} << 20;

// dprintf would allocate.
void PrintResident(const char* when, size_t bytes) {
  char line[64];
  const int length = snprintf(line, sizeof(line), "%s: %zu MiB\n", when, bytes / kMiB);
  CHECK(write(STDOUT_FILENO, line, static_cast<size_t>(length)) == length);
}

char** objects;  // the program's own memory
pthread_barrier_t barrier;
pthread_barrier_t full;

// Sizes from 16 bytes to 64 KiB, every power of two as likely as the next. The oldest are freed.
void TakeAndDrop(size_t part, size_t parts) {
  const bool together = parts > 1;
  std::mt19937_64 random(kSeed + part);
  char** const own = objects + part * (kMostObjects / parts);
  size_t n = 0;
  size_t dropped = 0;
  for (size_t total = 0; total < kBytes / parts; ++n) {
    CHECK(n < kMostObjects / parts);
    const size_t power = size_t{16} << random() % 12;
    const size_t size = power + random() % power;
    own[n] = NewMarked(size, 1);
    total += size;
    if (total <= (kBytes - kLiveBytes) / parts) dropped = n + 1;
  }
  // All threads have allocated before any of them frees.
  if (together) pthread_barrier_wait(&full);
  if (part == 0) PrintResident("full", ResidentBytes());
  for (size_t i = 0; i < dropped; ++i) Free(own[i]);
}

void* Sleep(void*) {
  pthread_barrier_wait(&barrier);
  // Sleeps for good: the process ends before.
  pthread_barrier_wait(&barrier);
  return nullptr;
}

void* TakeDropAndSleep(void* part) {
  TakeAndDrop(reinterpret_cast<size_t>(part), kThreads);
  return Sleep(nullptr);
}

void Start(void* (*run)(void*)) {
  for (size_t i = 0; i < kThreads; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, run, reinterpret_cast<void*>(i)) == 0);
  }
  pthread_barrier_wait(&barrier);
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 2);
  const bool held = strcmp(argv[1], "held") == 0;
  CHECK(held == (getenv("TCMALLOC_RELEASE_RATE") != nullptr));
  const bool alone = strcmp(argv[1], "alone") == 0;
  CHECK(pthread_barrier_init(&barrier, nullptr, kThreads + 1) == 0);
  CHECK(pthread_barrier_init(&full, nullptr, kThreads) == 0);
  objects = static_cast<char**>(mmap(nullptr, kMostObjects * sizeof(char*), PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  CHECK(objects != MAP_FAILED);
  const bool first = strcmp(argv[1], "threads_first") == 0;
  if (first) Start(&Sleep);
  first || alone ? TakeAndDrop(0, 1) : Start(&TakeDropAndSleep);
  CHECK(madvise(objects, kMostObjects * sizeof(char*), MADV_DONTNEED) == 0);
  PrintResident("dropped", ResidentBytes());
  const size_t most = (alone ? 2 * kLiveBytes : kLiveBytes + kLiveBytes / 2) + 16 * kMiB;
  size_t resident = SIZE_MAX;
  for (int second = 1; second <= 10 && resident > most; ++second) {
    const timespec pause = {.tv_sec = 1, .tv_nsec = 0};
    CHECK(nanosleep(&pause, nullptr) == 0);
    resident = ResidentBytes();
    char when[16];
    snprintf(when, sizeof(when), "%d s", second);
    PrintResident(when, resident);
  }
  CHECK(held ? resident > kBytes : resident <= most);
  _exit(0);
}
