// SPDX-License-Identifier: BSD-3-Clause
//
// release_latency [MIB]: measures how long calls of malloc and free take in one thread while
// another releases MIB (2048) MiB of free memory. No call waits for the release.
//
// Bounds. While one thread releases, the other may have to wait for
//   * the page heap's lock: microseconds;
//   * a page fault or a mapping of its own, which the kernel may delay until the memory of one call
//     is released, at most 8 MiB of small pages: 0.1 to 0.5 ms, on a slow machine 1 ms.
// So no call may take longer than kLongestUs. Waits of the first kind are the usual ones: at most
// the share kMostWaited of the release may be spent in calls longer than kLongUs. An allocator that
// holds its lock over the system calls fails the second bound; one that holds it over all of them
// fails both. Memory that the other thread touches is resident before, and it does not touch memory
// that it gets meanwhile, so that zeroing pages is not measured.
//
// A call during which the thread was preempted (involuntary context switches) is counted
// separately. A thread that blocks in a lock is not preempted. A host may also take CPUs away from
// the machine without notice, so the best of several rounds counts: the allocator does the same in
// all of them.
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>

#include "../check.h"

extern "C" {
size_t tcmalloc_release_free_memory() noexcept __attribute__((weak));
void tcmalloc_set_memory_release_rate(double) noexcept __attribute__((weak));
}

namespace {

constexpr int64_t kLongestUs = 3000;
constexpr int64_t kLongUs = 50;
constexpr double kMostWaited = 0.25;
constexpr int kRounds = 4;
constexpr uint64_t kSeed = 20261121;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kObjectBytes = 8 * kMiB;
constexpr size_t kMostObjects = 4096;
constexpr int kBuckets = 24;

char* objects[kMostObjects];
std::atomic<bool> releasing;
std::atomic<bool> released;
size_t released_bytes;
int64_t released_ns;

int64_t Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

long Preemptions() {
  rusage usage;
  CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
  return usage.ru_nivcsw;
}

struct Histogram {
  // [i]: below 2^i microseconds.
  uint64_t counts[kBuckets] = {};
  uint64_t samples = 0;
  int64_t longest_ns = 0;
  int64_t long_ns = 0;

  void Add(int64_t ns) {
    int bucket = 0;
    while (bucket < kBuckets - 1 && ns >= int64_t{1000} << bucket) ++bucket;
    ++counts[bucket];
    ++samples;
    longest_ns = std::max(longest_ns, ns);
    if (ns >= kLongUs * 1000) long_ns += ns;
  }
  void Print(const char* what) const {
    dprintf(STDOUT_FILENO, "%s: %llu calls, longest %.1f us\n", what, (unsigned long long)samples,
            static_cast<double>(longest_ns) / 1000);
    for (int i = 0; i < kBuckets; ++i) {
      if (counts[i] == 0) continue;
      dprintf(STDOUT_FILENO, "  < %8lld us %12llu\n", 1LL << i, (unsigned long long)counts[i]);
    }
  }
};

void* Release(void*) {
  while (!releasing.load()) sched_yield();
  const int64_t start_ns = Nanoseconds();
  released_bytes = tcmalloc_release_free_memory();
  released_ns = Nanoseconds() - start_ns;
  released.store(true);
  return nullptr;
}

// Allocates and frees small objects, so that their pages stay in use, and large ones. Each large
// one needs the page heap's lock.
class Worker {
 public:
  Worker() : random_(kSeed) {
    for (char*& object : small_) object = NewMarked(SmallSize(), 1);
    for (void*& object : large_) object = Malloc(kLargeBytes);
  }
  ~Worker() {
    for (char* const object : small_) Free(object);
    for (void* const object : large_) Free(object);
  }
  // Runs until the other thread is done.
  void Run(Histogram* own, Histogram* preempted) {
    long preemptions = Preemptions();
    bool done = false;
    for (size_t i = 0; !done; ++i) {
      done = released.load();
      const uint64_t n = random_();
      char*& small = small_[n % kSmall];
      void*& large = large_[n % kLarge];
      const size_t size = SmallSize();
      const int64_t start_ns = Nanoseconds();
      switch (i % 4) {
        case 0:
          Free(small);
          break;
        case 1:
          Free(large);
          break;
      }
      const int64_t freed_ns = Nanoseconds();
      switch (i % 4) {
        case 0:
          small = static_cast<char*>(Malloc(size));
          break;
        case 1:
          large = Malloc(kLargeBytes);
          break;
        default:
          // These are the usual operations of a thread.
          Free(Malloc(size));
      }
      const int64_t end_ns = Nanoseconds();
      const long preemptions_after = Preemptions();
      Histogram* const histogram = preemptions_after == preemptions ? own : preempted;
      preemptions = preemptions_after;
      if (i % 4 < 2) histogram->Add(freed_ns - start_ns);
      histogram->Add(end_ns - freed_ns);
    }
  }

 private:
  static constexpr size_t kSmall = 4096;
  static constexpr size_t kLarge = 4;
  static constexpr size_t kLargeBytes = size_t{300} << 10;

  size_t SmallSize() { return 16 + random_() % 2000; }

  std::mt19937_64 random_;
  char* small_[kSmall];
  void* large_[kLarge];
};

// True when the bounds hold.
bool Round(Worker& worker, size_t num_objects) {
  // The worker's own objects, which must not be in, after or between the released memory.
  for (size_t i = 0; i < num_objects; ++i) objects[i] = NewMarked(kObjectBytes, 1);
  for (size_t i = 0; i < num_objects; ++i) Free(objects[i]);
  const size_t full = ResidentBytes();
  CHECK(full >= num_objects * kObjectBytes);
  releasing.store(false);
  released.store(false);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, &Release, nullptr) == 0);
  Histogram own;
  Histogram preempted;
  releasing.store(true);
  worker.Run(&own, &preempted);
  CHECK(pthread_join(thread, nullptr) == 0);
  CHECK(released_bytes >= num_objects * kObjectBytes - 8 * kMiB);
  CHECK(ResidentBytes() <= full - num_objects * kObjectBytes + 16 * kMiB);
  const double waited = static_cast<double>(own.long_ns) / static_cast<double>(released_ns);
  dprintf(STDOUT_FILENO, "%zu MiB in %.1f ms\n", released_bytes / kMiB,
          static_cast<double>(released_ns) / 1e6);
  own.Print("not preempted");
  preempted.Print("preempted");
  const bool good = own.longest_ns <= kLongestUs * 1000 && waited <= kMostWaited;
  dprintf(STDOUT_FILENO, "waited %.3f of the time: %s\n", waited, good ? "good" : "too long");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(tcmalloc_release_free_memory != nullptr && tcmalloc_set_memory_release_rate != nullptr);
  const size_t num_objects =
      (argc > 1 ? strtoul(argv[1], nullptr, 10) : 2048) * kMiB / kObjectBytes;
  CHECK(num_objects <= kMostObjects);
  dprintf(STDOUT_FILENO, "seed %llu\n", (unsigned long long)kSeed);
  // Prevents other releases of memory.
  tcmalloc_set_memory_release_rate(0);
  Worker worker;
  for (int round = 0; round < kRounds; ++round) {
    if (Round(worker, num_objects)) return 0;
  }
  return 1;
}
