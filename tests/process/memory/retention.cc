// SPDX-License-Identifier: BSD-3-Clause
//
// retention WORKLOAD: runs the workload, then does not call the allocator any more. Ten seconds
// later the allocator keeps no more than the retention total and its shares, by its own statistics,
// and resident memory is at most that and what the statistics call fragmentation:
//   * free objects in spans that are partly in use, and the allocator's records;
//   * free pages of hugepages that are partly in use: up to a sixteenth of what spans in use hold;
//   * the 64 KiB that each thread may cache whatever its share is.
// In a process with one thread, free pages may take up to half of the total: no thread releases
// them later.
// WORKLOAD "held" is the burst with TCMALLOC_RELEASE_RATE=0, which must exceed the bounds:
// otherwise the test would show nothing.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../check.h"

namespace {

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;
constexpr uint64_t kSeed = 20261125;
constexpr size_t kMostObjects = size_t{6} << 20;
constexpr size_t kThreads = 8;
// The threads of many_threads: enough for a share of thread caches of more than half of the total.
constexpr size_t kManyThreads = 300;

// The program's own memory: an array of pointers that the allocator does not know of.
char** objects;
pthread_barrier_t all_done;

size_t (*stats_json)(char* buffer, size_t length);
char json[64 * kKiB];

size_t Figure(const char* name) {
  char key[80];
  snprintf(key, sizeof(key), "\"%s\":", name);
  const char* const at = strstr(json, key);
  if (at == nullptr) dprintf(STDERR_FILENO, "no %s in: %.2000s\n", name, json);
  CHECK(at != nullptr);
  return strtoull(at + strlen(key), nullptr, 10);
}

// The number of threads of the process, the library's included. Allocates nothing.
size_t NumThreads() {
  struct stat status;
  CHECK(stat("/proc/self/task", &status) == 0);
  return status.st_nlink - 2;
}

size_t MixedSize(std::mt19937_64& random) {
  const size_t power = size_t{16} << random() % 12;
  return power + random() % power;
}

// Allocates `bytes` in objects of mixed sizes into `own`; returns their number.
size_t Take(char** own, size_t bytes, std::mt19937_64& random) {
  size_t n = 0;
  for (size_t total = 0; total < bytes; ++n) {
    const size_t size = MixedSize(random);
    own[n] = NewMarked(size, 1);
    total += size;
  }
  return n;
}

void FreeFrom(char** own, size_t n) {
  for (size_t i = 0; i < n; ++i) Free(own[i]);
}

void Burst() {
  std::mt19937_64 random(kSeed);
  const size_t n = Take(objects, 300 * kMiB, random);
  FreeFrom(objects, n - n / 10);
}

void LargeObjects() {
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < 40; ++i) objects[i] = NewMarked(256 * kKiB + random() % (8 * kMiB), 1);
    FreeFrom(objects, 40);
  }
}

// Allocates and frees several objects of every size class, several times.
void EveryClass(char** own) {
  for (int round = 0; round < 3; ++round) {
    for (size_t size = 16; size <= 256 * kKiB; size += size / 8 > 16 ? size / 8 : 16) {
      const size_t count = size < 4 * kKiB ? 500 : 2 * kMiB / size;
      for (size_t i = 0; i < count; ++i) own[i] = NewMarked(size, 1);
      FreeFrom(own, count);
    }
  }
}

void Fragmented() {
  const size_t n = 300 * kMiB / 200;
  for (size_t i = 0; i < n; ++i) objects[i] = NewMarked(200, 1);
  for (size_t i = 0; i < n; ++i) {
    if (i % 20 != 0) Free(objects[i]);
  }
}

void Reallocations() {
  for (int round = 0; round < 50; ++round) {
    char* object = nullptr;
    for (size_t size = 100; size < 20 * kMiB; size += size / 2) {
      object = static_cast<char*>(Realloc(object, size));
      CHECK(object != nullptr);
      memset(object, 1, size);
    }
    Free(object);
  }
}

char** PartOf(size_t thread) { return objects + thread * (kMostObjects / kThreads); }

void* FillAndEnd(void* thread) {
  EveryClass(PartOf(reinterpret_cast<size_t>(thread)));
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

void* PhasesAndSleep(void* thread) {
  char** const own = PartOf(reinterpret_cast<size_t>(thread));
  std::mt19937_64 random(kSeed + reinterpret_cast<size_t>(thread));
  for (int round = 0; round < 5; ++round) FreeFrom(own, Take(own, 20 * kMiB, random));
  return Sleep();
}

void* FreeOthersAndSleep(void* thread) {
  const size_t next = (reinterpret_cast<size_t>(thread) + 1) % kThreads;
  std::mt19937_64 random(kSeed + reinterpret_cast<size_t>(thread));
  char** const own = PartOf(reinterpret_cast<size_t>(thread));
  own[Take(own, 20 * kMiB, random)] = nullptr;
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
    FreeFrom(first, kBurst);
    for (size_t i = 0; i < kBurst; ++i) first[i] = NewMarked(size(), 1);
  }
  return Sleep();
}

void Start(void* (*run)(void*), bool hand_over, size_t num_threads = kThreads) {
  for (size_t i = 0; i < num_threads; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, run, reinterpret_cast<void*>(i)) == 0);
  }
  if (hand_over) pthread_barrier_wait(&all_done);
  pthread_barrier_wait(&all_done);
}

void ThreadsThatEnd(size_t rounds) {
  for (size_t round = 0; round < rounds; ++round) {
    pthread_t threads[kThreads];
    for (size_t i = 0; i < kThreads; ++i) {
      CHECK(pthread_create(&threads[i], nullptr, &FillAndEnd, reinterpret_cast<void*>(i)) == 0);
    }
    for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  }
}

bool Run(const char* workload) {
  const auto is = [workload](const char* name) { return strcmp(workload, name) == 0; };
  if (is("burst") || is("held")) return Burst(), true;
  if (is("large_objects")) return LargeObjects(), true;
  if (is("every_class")) return EveryClass(objects), true;
  if (is("fragmented")) return Fragmented(), true;
  if (is("reallocations")) return Reallocations(), true;
  if (is("threads_end")) return ThreadsThatEnd(8), true;
  if (is("threads_sleep") || is("many_shards")) return Start(&FillAndSleep, false), true;
  if (is("many_threads")) return Start(&ReplaceAndSleep, false, kManyThreads), true;
  if (is("phases")) return Start(&PhasesAndSleep, false), true;
  if (is("handed_over")) return Start(&FreeOthersAndSleep, true), true;
  if (is("burst_with_threads")) return Start(&FillAndSleep, false), Burst(), true;
  return false;
}

// Whether what is kept is within the bounds; prints the figures.
bool WithinBounds(size_t base_bytes) {
  const size_t length = stats_json(json, sizeof(json));
  CHECK(length < sizeof(json));
  const size_t in_use = Figure("in_use_bytes");
  const size_t caches = Figure("thread_cache_free_bytes");
  const size_t kept = Figure("kept_span_bytes");
  const size_t free_pages = Figure("page_heap_free_bytes") - kept;
  const size_t total = Figure("retention_bytes");
  const size_t least_of_threads = Figure("thread_caches") * 64 * kKiB;
  const size_t caches_bound = Figure("retention_thread_cache_bytes") +
                              Figure("retention_inherited_bytes") + least_of_threads;
  const size_t kept_bound = Figure("retention_kept_span_bytes");
  const size_t in_hugepages = (in_use + Figure("central_cache_free_bytes")) / 16;
  // If no thread of the library runs, the memory that the program needed before its last free may
  // stay.
  const size_t needed = NumThreads() > 1 ? 0 : total / 2;
  const size_t pages_bound = Figure("retention_free_page_bytes") + needed + in_hugepages;
  const size_t fragmentation =
      Figure("central_cache_free_bytes") + Figure("metadata_bytes") + in_hugepages;
  const size_t resident = ResidentBytes();
  const size_t resident_bound = base_bytes + in_use + total + least_of_threads + fragmentation;
  dprintf(STDOUT_FILENO,
          "KiB: in use %zu, caches %zu of %zu, kept spans %zu of %zu, free pages %zu of %zu, "
          "fragmentation %zu, resident %zu of %zu\n",
          in_use / kKiB, caches / kKiB, caches_bound / kKiB, kept / kKiB, kept_bound / kKiB,
          free_pages / kKiB, pages_bound / kKiB, fragmentation / kKiB, resident / kKiB,
          resident_bound / kKiB);
  CHECK(Figure("retention_thread_cache_bytes") + Figure("retention_inherited_bytes") + kept_bound +
            Figure("retention_free_page_bytes") ==
        total);
  return caches <= caches_bound && kept <= kept_bound && free_pages <= pages_bound &&
         caches + kept + free_pages <= total + least_of_threads + in_hugepages &&
         resident <= resident_bound;
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 2);
  stats_json =
      reinterpret_cast<size_t (*)(char*, size_t)>(dlsym(RTLD_DEFAULT, "tcmalloc_stats_json"));
  CHECK(stats_json != nullptr);
  const size_t num_threads = strcmp(argv[1], "many_threads") == 0 ? kManyThreads : kThreads;
  CHECK(pthread_barrier_init(&all_done, nullptr, num_threads + 1) == 0);
  objects = static_cast<char**>(mmap(nullptr, kMostObjects * sizeof(char*), PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  CHECK(objects != MAP_FAILED);
  WithinBounds(0);
  const size_t base_bytes = ResidentBytes();
  CHECK(Run(argv[1]));
  CHECK(madvise(objects, kMostObjects * sizeof(char*), MADV_DONTNEED) == 0);
  const bool held = strcmp(argv[1], "held") == 0;
  const timespec pause = {.tv_sec = 10, .tv_nsec = 0};
  CHECK(nanosleep(&pause, nullptr) == 0);
  const bool within = WithinBounds(base_bytes);
  CHECK(within != held);
  // The share of caches depends on the number of threads. The threads sleep, so the caches must be
  // empty.
  if (num_threads == kManyThreads) CHECK(Figure("thread_cache_free_bytes") < kMiB);
  _exit(0);
}
