// SPDX-License-Identifier: BSD-3-Clause
//
// retention WORKLOAD: runs the workload, and becomes idle. Then the allocator releases memory until
// it keeps no more than the retention total and its shares, by its own statistics, and what these
// call fragmentation:
//   * free objects in spans that are partly in use, and the allocator's records;
//   * free pages between spans in use: up to a sixteenth of what these hold;
//   * the 64 KiB that each thread may cache whatever its share is.
// In a process with one thread, which calls the allocator now and then, free pages may take up to
// half of the total.
#include <pthread.h>
#include <sys/stat.h>

#include "heap_figures.h"

namespace {

constexpr uint64_t kSeed = 20261125;
constexpr size_t kMostObjects = size_t{6} << 20;
constexpr size_t kThreads = 8;
// The threads of many_threads: enough for a share of thread caches of more than half of the total.
constexpr size_t kManyThreads = 300;

char** objects;
pthread_barrier_t all_done;

// The number of threads of the process, the library's included. Allocates nothing.
size_t NumThreads() {
  struct stat status;
  CHECK(stat("/proc/self/task", &status) == 0);
  return status.st_nlink - 2;
}

void Burst() {
  std::mt19937_64 random(kSeed);
  const size_t n = TakeMixed(objects, 300 * kMiB, random);
  FreeFirst(objects, n - n / 10);
}

char** PartOf(size_t thread) { return objects + thread * (kMostObjects / kThreads); }

// Allocates and frees several objects of every size class, several times.
void* FillAndEnd(void* thread) {
  char** const own = PartOf(reinterpret_cast<size_t>(thread));
  for (int round = 0; round < 3; ++round) {
    for (size_t size = 16; size <= 256 * kKiB; size += size / 8 > 16 ? size / 8 : 16) {
      const size_t count = size < 4 * kKiB ? 500 : 2 * kMiB / size;
      for (size_t i = 0; i < count; ++i) own[i] = NewMarked(size, 1);
      FreeFirst(own, count);
    }
  }
  return nullptr;
}

// Sleeps for good: the process ends before.
void* Sleep() {
  pthread_barrier_wait(&all_done);
  pthread_barrier_wait(&all_done);
  return nullptr;
}

void* FillAndSleep(void* thread) {
  FillAndEnd(thread);
  return Sleep();
}

void* FreeOthersAndSleep(void* thread) {
  const size_t next = (reinterpret_cast<size_t>(thread) + 1) % kThreads;
  std::mt19937_64 random(kSeed + reinterpret_cast<size_t>(thread));
  char** const own = PartOf(reinterpret_cast<size_t>(thread));
  own[TakeMixed(own, 20 * kMiB, random)] = nullptr;
  pthread_barrier_wait(&all_done);
  for (char** object = PartOf(next); *object != nullptr; ++object) Free(*object);
  return Sleep();
}

// Replaces objects in bursts, so that every bin holds some.
void* ReplaceAndSleep(void* thread) {
  constexpr size_t kObjects = 500;
  constexpr size_t kBurst = 100;
  char** const own = objects + reinterpret_cast<size_t>(thread) * kObjects;
  std::mt19937_64 random(kSeed + reinterpret_cast<size_t>(thread));
  const auto size = [&random] {
    const size_t power = size_t{16} << random() % 8;
    return power + random() % power;
  };
  for (size_t i = 0; i < kObjects; ++i) own[i] = NewMarked(size(), 1);
  for (int burst = 0; burst < 200; ++burst) {
    char** const first = own + random() % (kObjects - kBurst);
    FreeFirst(first, kBurst);
    for (size_t i = 0; i < kBurst; ++i) first[i] = NewMarked(size(), 1);
  }
  return Sleep();
}

void Start(void* (*run)(void*), size_t waits, size_t num_threads = kThreads) {
  for (size_t i = 0; i < num_threads; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, run, reinterpret_cast<void*>(i)) == 0);
  }
  for (size_t i = 0; i < waits; ++i) pthread_barrier_wait(&all_done);
}

void ThreadsThatEnd() {
  for (size_t round = 0; round < 8; ++round) {
    pthread_t threads[kThreads];
    for (size_t i = 0; i < kThreads; ++i) {
      CHECK(pthread_create(&threads[i], nullptr, &FillAndEnd, reinterpret_cast<void*>(i)) == 0);
    }
    for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  }
}

void Run(const char* workload) {
  const auto is = [workload](const char* name) { return strcmp(workload, name) == 0; };
  if (is("burst")) return Burst();
  if (is("threads_end")) return ThreadsThatEnd();
  if (is("threads_sleep") || is("many_shards")) return Start(&FillAndSleep, 1);
  if (is("many_threads")) return Start(&ReplaceAndSleep, 1, kManyThreads);
  if (is("handed_over")) return Start(&FreeOthersAndSleep, 2);
  CHECK(!"a workload");
}

// Whether what is kept is within the bounds.
bool IsWithinBounds(const HeapFigures& figures, bool prints) {
  const size_t in_use = figures["in_use_bytes"];
  const size_t caches = figures["thread_cache_free_bytes"];
  const size_t kept = figures["kept_span_bytes"];
  const size_t free_pages = figures["page_heap_free_bytes"] - kept;
  const size_t total = figures["retention_bytes"];
  const size_t least_of_threads = figures["thread_caches"] * 64 * kKiB;
  const size_t caches_share =
      figures["retention_thread_cache_bytes"] + figures["retention_inherited_bytes"];
  const size_t kept_bound = figures["retention_kept_span_bytes"];
  const size_t between = (in_use + figures["central_cache_free_bytes"]) / 16;
  // If no thread of the library runs, the memory that the program needed before its last free may
  // stay.
  const size_t needed = NumThreads() > 1 ? 0 : total / 2;
  const size_t pages_bound = figures["retention_free_page_bytes"] + needed + between;
  CHECK(caches_share + kept_bound + figures["retention_free_page_bytes"] == total);
  if (prints) {
    dprintf(STDOUT_FILENO,
            "KiB: in use %zu, caches %zu of %zu, kept spans %zu of %zu, free pages %zu of %zu\n",
            in_use / kKiB, caches / kKiB, (caches_share + least_of_threads) / kKiB, kept / kKiB,
            kept_bound / kKiB, free_pages / kKiB, pages_bound / kKiB);
  }
  return caches <= caches_share + least_of_threads && kept <= kept_bound &&
         free_pages <= pages_bound &&
         caches + kept + free_pages <= total + least_of_threads + between;
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 2);
  ForbidHugepages();
  const bool many = strcmp(argv[1], "many_threads") == 0;
  CHECK(pthread_barrier_init(&all_done, nullptr, (many ? kManyThreads : kThreads) + 1) == 0);
  objects = PointersOutsideTheHeap(kMostObjects);
  HeapFigures figures;
  const size_t base_bytes = ResidentBytes();
  Run(argv[1]);
  CHECK(madvise(objects, kMostObjects * sizeof(char*), MADV_DONTNEED) == 0);
  figures.Read();
  IsWithinBounds(figures, true);
  AwaitFigures(NumThreads() == 1, [many](const HeapFigures& now) {
    // The share of caches depends on the number of threads. The threads sleep, so the caches must
    // be empty.
    return IsWithinBounds(now, false) && (!many || now["thread_cache_free_bytes"] < kMiB);
  });
  figures.Read();
  IsWithinBounds(figures, true);
  CHECK(figures["released_bytes"] > 0);
  // What counts as released is not resident: beside the heap, the stacks of the threads are.
  const size_t stacks = (many ? kManyThreads : kThreads) * 64 * kKiB;
  const size_t backed = figures["actual_bytes"];
  dprintf(STDOUT_FILENO, "resident %zu KiB, backed %zu KiB\n", ResidentBytes() / kKiB,
          backed / kKiB);
  CHECK(ResidentBytes() <= base_bytes + backed + stacks + 8 * kMiB);
  _exit(0);
}
