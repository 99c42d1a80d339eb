// SPDX-License-Identifier: BSD-3-Clause
// retention WORKLOAD [hugepages]: runs the workload, and becomes idle. Then the allocator releases
// memory until, by its own statistics, it keeps no more than the retention total and its shares,
// and what the statistics call fragmentation:
//   * free objects in spans that are partly in use, and the allocator's records;
//   * free pages between spans in use: up to a sixteenth of what these hold;
//   * the 64 KiB that each thread may cache whatever its share is.
// In a process with one thread, which calls the allocator now and then, free pages may take up to
// half of the total.
//
// The workloads `drop...` allocate 300 MiB in objects of mixed sizes and free the first 250 MiB of
// them. Their heap then has at most 1.5 times the live bytes and 16 MiB, or 2 times in a process
// with one thread.
//
// With `hugepages` only this second bound holds. Otherwise the process has no hugepages, and its
// resident memory shows that the memory was released.
#include <sys/mman.h>
#include <sys/prctl.h>

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
constexpr size_t kDroppedBytes = 250 * kMiB;
constexpr size_t kLiveBytes = 50 * kMiB;
constexpr size_t kThreads = 8;
// The threads of many_threads: enough for a share of thread caches of more than half of the total.
constexpr size_t kManyThreads = 300;

// The figures of tcmalloc_stats_json. Reading them allocates nothing.
class HeapFigures {
 public:
  HeapFigures() {
    using Function = size_t(char*, size_t);
    static auto* const stats =
        reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, "tcmalloc_stats_json"));
    CHECK(stats != nullptr && stats(json_, sizeof(json_)) < sizeof(json_));
  }
  size_t operator[](const char* name) const {
    char key[80];
    snprintf(key, sizeof(key), "\"%s\":", name);
    const char* const at = strstr(json_, key);
    CHECK(at != nullptr);
    return strtoull(at + strlen(key), nullptr, 10);
  }

 private:
  static inline char json_[64 * kKiB];
};

char** objects;  // in memory that the allocator does not know of
pthread_barrier_t all_done;
pthread_barrier_t all_full;
pthread_t threads[kManyThreads];

// Allocates `bytes` in objects of 16 bytes to 64 KiB, each power of two as likely as the next.
// Returns their number.
size_t TakeMixed(char** own, size_t bytes, std::mt19937_64& random) {
  size_t n = 0;
  for (size_t total = 0; total < bytes; ++n) {
    const size_t power = size_t{16} << random() % 12;
    const size_t size = power + random() % power;
    own[n] = NewMarked(size, 1);
    total += size;
  }
  return n;
}

void FreeFirst(char** own, size_t n) {
  for (size_t i = 0; i < n; ++i) Free(own[i]);
}

char** PartOf(size_t thread) { return objects + thread * (kMostObjects / kThreads); }

// Frees the oldest objects once all threads have allocated theirs.
void Drop(size_t part, size_t parts) {
  std::mt19937_64 random(kSeed + part);
  char** const own = PartOf(part);
  const size_t dropped = TakeMixed(own, kDroppedBytes / parts, random);
  TakeMixed(own + dropped, kLiveBytes / parts, random);
  if (parts > 1) pthread_barrier_wait(&all_full);
  FreeFirst(own, dropped);
}

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

// Sleeps without end, unless the main thread waits a second time; the process ends before that.
void* Sleep(void*) {
  pthread_barrier_wait(&all_done);
  pthread_barrier_wait(&all_done);
  return nullptr;
}

void* DropAndSleep(void* thread) {
  Drop(reinterpret_cast<size_t>(thread), kThreads);
  return Sleep(nullptr);
}

void* FillAndSleep(void* thread) { return Sleep(FillAndEnd(thread)); }

void* FreeOthersAndSleep(void* thread) {
  const size_t next = (reinterpret_cast<size_t>(thread) + 1) % kThreads;
  std::mt19937_64 random(kSeed + reinterpret_cast<size_t>(thread));
  char** const own = PartOf(reinterpret_cast<size_t>(thread));
  own[TakeMixed(own, 20 * kMiB, random)] = nullptr;
  pthread_barrier_wait(&all_full);
  for (char** object = PartOf(next); *object != nullptr; ++object) Free(*object);
  return Sleep(nullptr);
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
  return Sleep(nullptr);
}

void Create(void* (*run)(void*), size_t num_threads) {
  for (size_t i = 0; i < num_threads; ++i) {
    threads[i] = StartThread(run, reinterpret_cast<void*>(i));
  }
}

void JoinAll() {
  for (size_t i = 0; i < kThreads; ++i) JoinThread(threads[i]);
}

void StartSleepers(void* (*run)(void*), size_t num_threads = kThreads) {
  CHECK(pthread_barrier_init(&all_done, nullptr, static_cast<unsigned>(num_threads) + 1) == 0);
  Create(run, num_threads);
  pthread_barrier_wait(&all_done);
}

const struct Workload {
  const char* name;
  void (*run)();
} kWorkloads[] = {
    {"drop_alone", [] { Drop(0, 1); }},
    {"drop_threads", [] { StartSleepers(&DropAndSleep); }},
    // The threads never allocate.
    {"drop_threads_first",
     [] {
       StartSleepers(&Sleep);
       Drop(0, 1);
     }},
    {"drop_threads_ended",
     [] {
       StartSleepers(&Sleep);
       pthread_barrier_wait(&all_done);
       JoinAll();
       Drop(0, 1);
     }},
    {"threads_end",
     [] {
       for (int round = 0; round < 8; ++round) {
         Create(&FillAndEnd, kThreads);
         JoinAll();
       }
     }},
    {"threads_sleep", [] { StartSleepers(&FillAndSleep); }},
    {"many_threads", [] { StartSleepers(&ReplaceAndSleep, kManyThreads); }},
    {"handed_over", [] { StartSleepers(&FreeOthersAndSleep); }},
};

// Whether what is kept is within the bounds.
bool IsWithinShares(const HeapFigures& figures, bool prints) {
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
  CHECK(argc == 2 || (argc == 3 && strcmp(argv[2], "hugepages") == 0));
  const bool hugepages = argc == 3;
  if (!hugepages) CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  const bool many = strcmp(argv[1], "many_threads") == 0;
  const bool drops = strncmp(argv[1], "drop", 4) == 0;
  CHECK(pthread_barrier_init(&all_full, nullptr, kThreads) == 0);
  void* const memory = mmap(nullptr, kMostObjects * sizeof(char*), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  objects = static_cast<char**>(memory);
  const size_t base_bytes = ResidentBytes();
  bool found = false;
  for (const Workload& workload : kWorkloads) {
    if (strcmp(argv[1], workload.name) != 0) continue;
    workload.run();
    found = true;
  }
  CHECK(found);
  CHECK(madvise(objects, kMostObjects * sizeof(char*), MADV_DONTNEED) == 0);
  const bool alone = NumThreads() == 1;
  const size_t live = HeapFigures()["in_use_bytes"];
  CHECK(!drops || (live >= kLiveBytes && live < kLiveBytes + kLiveBytes / 4));
  const size_t most = drops ? (alone ? 2 * live : live + live / 2) + 16 * kMiB : SIZE_MAX;
  IsWithinShares(HeapFigures(), true);
  for (int i = 0;; ++i) {
    const HeapFigures now;
    // The share of caches depends on the number of threads. The threads sleep, so the caches must
    // be empty.
    if (now["actual_bytes"] <= most && (hugepages || IsWithinShares(now, false)) &&
        (!many || now["thread_cache_free_bytes"] < kMiB)) {
      break;
    }
    CHECK(i < 10'000);
    // No other thread releases memory.
    if (alone) Free(Malloc(300'000));
    SleepMs(10);
  }
  const HeapFigures figures;
  IsWithinShares(figures, true);
  CHECK(figures["released_bytes"] > 0);
  // Memory that counts as released is not resident; beside the heap, only the stacks of the threads
  // are resident.
  const size_t stacks = (many ? kManyThreads : kThreads) * 64 * kKiB;
  const size_t backed = figures["actual_bytes"];
  dprintf(STDOUT_FILENO, "resident %zu KiB, backed %zu KiB\n", ResidentBytes() / kKiB,
          backed / kKiB);
  CHECK(hugepages || ResidentBytes() <= base_bytes + backed + stacks + 8 * kMiB);
  _exit(0);
}
