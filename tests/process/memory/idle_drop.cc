// SPDX-License-Identifier: BSD-3-Clause
//
// idle_drop alone|threads|threads_first [hugepages]: a program allocates 300 MiB in objects of
// mixed sizes, frees the first 250 MiB of them, and becomes idle. The library releases memory, by
// default, until the backed memory of the heap is near the live bytes.
//   alone          one thread, which calls the allocator now and then: at most twice the live bytes
//                  and 16 MiB
//   threads        eight threads allocate and free, and sleep: 1.5 times the live bytes and 16 MiB
//   threads_first  the main thread allocates and frees while the eight, which never allocate,
//   sleep:
//                  the same bound
//   threads_ended  the same after they have ended: the bound of `alone`
// Unless `hugepages` is given, the process has none, and its resident memory shows that the memory
// was released.
#include <pthread.h>

#include "heap_figures.h"

namespace {

constexpr size_t kBytes = 300 * kMiB;
constexpr size_t kLiveBytes = 50 * kMiB;
constexpr size_t kThreads = 8;
constexpr uint64_t kSeed = 20261124;
constexpr size_t kMostObjects = size_t{4} << 20;

char** objects;
pthread_barrier_t barrier;
pthread_barrier_t full;

// Frees the oldest objects once all threads have allocated theirs.
void TakeAndDrop(size_t part, size_t parts) {
  std::mt19937_64 random(kSeed + part);
  char** const own = objects + part * (kMostObjects / parts);
  const size_t dropped = TakeMixed(own, (kBytes - kLiveBytes) / parts, random);
  TakeMixed(own + dropped, kLiveBytes / parts, random);
  if (parts > 1) pthread_barrier_wait(&full);
  FreeFirst(own, dropped);
}

void* Sleep(void*) {
  pthread_barrier_wait(&barrier);
  // Sleeps for good, unless EndSleepers is called.
  pthread_barrier_wait(&barrier);
  return nullptr;
}

void* TakeDropAndSleep(void* part) {
  TakeAndDrop(reinterpret_cast<size_t>(part), kThreads);
  return Sleep(nullptr);
}

pthread_t threads[kThreads];

void Start(void* (*run)(void*)) {
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, run, reinterpret_cast<void*>(i)) == 0);
  }
  pthread_barrier_wait(&barrier);
}

void EndSleepers() {
  pthread_barrier_wait(&barrier);
  for (const pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc >= 2);
  if (argc == 2) ForbidHugepages();
  const bool ended = strcmp(argv[1], "threads_ended") == 0;
  const bool alone = ended || strcmp(argv[1], "alone") == 0;
  CHECK(pthread_barrier_init(&barrier, nullptr, kThreads + 1) == 0);
  CHECK(pthread_barrier_init(&full, nullptr, kThreads) == 0);
  objects = PointersOutsideTheHeap(kMostObjects);
  HeapFigures figures;
  const size_t base_bytes = ResidentBytes();
  const bool first = strcmp(argv[1], "threads_first") == 0;
  if (first || ended) Start(&Sleep);
  if (ended) EndSleepers();
  first || alone ? TakeAndDrop(0, 1) : Start(&TakeDropAndSleep);
  CHECK(madvise(objects, kMostObjects * sizeof(char*), MADV_DONTNEED) == 0);
  figures.Read();
  const size_t live = figures["in_use_bytes"];
  CHECK(live >= kLiveBytes && live < kLiveBytes + kLiveBytes / 4);
  const size_t most = (alone ? 2 * live : live + live / 2) + 16 * kMiB;
  dprintf(STDOUT_FILENO, "dropped: %zu of %zu MiB backed\n", figures["actual_bytes"] / kMiB,
          most / kMiB);
  AwaitFigures(alone, [&](const HeapFigures& now) { return now["actual_bytes"] <= most; });
  figures.Read();
  dprintf(STDOUT_FILENO, "then: %zu MiB backed, %zu MiB released, %zu MiB resident\n",
          figures["actual_bytes"] / kMiB, figures["released_bytes"] / kMiB, ResidentBytes() / kMiB);
  CHECK(argc > 2 || ResidentBytes() <= base_bytes + most + 8 * kMiB);
  _exit(0);
}
