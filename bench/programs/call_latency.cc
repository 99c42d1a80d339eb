// SPDX-License-Identifier: BSD-3-Clause

// call-latency: how long single calls of malloc and free take, the slow ones included. Each thread
// replaces random ones of its objects and times each call on its own. In 1,000 objects 970 have up
// to 1 KiB, 28 up to 32 KiB, and 2 up to 1 MiB. The program touches an object outside the timed
// calls, so page faults of the program's own data do not count.
//
// Cost of a reading of the clock: it is measured, and taken off each call. A call during which the
// thread loses its processor counts with that time, as in a server.
#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

#ifdef __x86_64__
#include <x86intrin.h>
#else
#include <time.h>
#endif

namespace tcmalloc::bench {
namespace {

// Counts of times, in ticks. Each doubling of the time has 16 buckets, so a figure is at most 6 %
// too small.
class Histogram {
 public:
  static constexpr size_t kSteps = 16;
  static constexpr size_t kBuckets = 61 * kSteps;

  void Add(uint64_t ticks) { ++counts_[BucketOf(ticks)]; }
  void Add(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (uint64_t count : counts_) sum += count;
    return sum;
  }
  uint64_t count(size_t bucket) const { return counts_[bucket]; }
  // Returns the time that this share of the calls does not exceed, with the precision of a bucket.
  uint64_t Quantile(double share) const {
    const double wanted = share * static_cast<double>(total());
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (static_cast<double>(seen) >= wanted) return Start(i);
    }
    return 0;
  }
  // The smallest time in the bucket.
  static uint64_t Start(size_t bucket) {
    if (bucket < kSteps) return bucket;
    return (kSteps + bucket % kSteps) << (bucket / kSteps - 1);
  }

 private:
  static size_t BucketOf(uint64_t ticks) {
    if (ticks < kSteps) return ticks;
    const auto shift = static_cast<size_t>(std::bit_width(ticks)) - 5;
    return (shift + 1) * kSteps + (ticks >> shift) - kSteps;
  }

  uint64_t counts_[kBuckets];
};

// What a thread measures. Zero-filled memory is an empty one.
struct Latencies {
  Histogram of_malloc;
  Histogram of_free;
};

uint64_t Ticks() {
#ifdef __x86_64__
  _mm_lfence();
  const uint64_t ticks = __rdtsc();
  _mm_lfence();
  return ticks;
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
#endif
}

// Returns the fewest ticks between two readings of the clock with nothing in between.
uint64_t TicksOfAReading() {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t start = Ticks();
    least = std::min(least, Ticks() - start);
  }
  return least;
}

size_t RandomSize(Random* random) {
  const uint32_t kind = random->FastBelow(1000);
  if (kind < 970) return random->FastBetween(8, 1 << 10);
  if (kind < 998) return random->FastBetween((1 << 10) + 1, 32 << 10);
  return random->FastBetween((32 << 10) + 1, 1 << 20);
}

void Work(std::span<Object> own, uint64_t calls, uint64_t seed, uint64_t reading,
          Latencies* latencies) {
  const auto since = [reading](uint64_t start) {
    const uint64_t ticks = Ticks() - start;
    return ticks - std::min(ticks, reading);
  };
  Random random(seed);
  for (uint64_t i = 0; i < calls; ++i) {
    Object& object = own[random.FastBelow(own.size())];
    if (object.memory != nullptr) {
      object.Check();
      const uint64_t start = Ticks();
      free(object.memory);
      latencies->of_free.Add(since(start));
    }
    const size_t size = RandomSize(&random);
    const uint64_t start = Ticks();
    void* const memory = malloc(size);
    latencies->of_malloc.Add(since(start));
    if (memory == nullptr) Fail("malloc(%zu) returned null", size);
    object = {.memory = static_cast<unsigned char*>(memory),
              .size = static_cast<uint32_t>(size),
              .mark = static_cast<uint32_t>(i)};
    object.MarkThroughout();
  }
  for (Object& object : own) free(object.memory);
}

// For each bucket that has a call: its time, and the shares of the calls that took longer.
std::vector<std::array<double, 3>> Shares(const Latencies& all, double ns_per_tick) {
  std::vector<std::array<double, 3>> rows;
  uint64_t mallocs = all.of_malloc.total();
  uint64_t frees = all.of_free.total();
  const auto malloc_total = static_cast<double>(mallocs);
  const auto free_total = static_cast<double>(frees);
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    if (all.of_malloc.count(i) == 0 && all.of_free.count(i) == 0) continue;
    mallocs -= all.of_malloc.count(i);
    frees -= all.of_free.count(i);
    rows.push_back({static_cast<double>(Histogram::Start(i)) * ns_per_tick,
                    static_cast<double>(mallocs) / malloc_total,
                    static_cast<double>(frees) / free_total});
  }
  return rows;
}

struct Figure {
  const char* name_of_malloc;
  const char* name_of_free;
  double share;
};
constexpr Figure kFigures[] = {{"malloc_p999_ns", "free_p999_ns", 0.999},
                               {"malloc_p50_ns", "free_p50_ns", 0.5},
                               {"malloc_p99_ns", "free_p99_ns", 0.99},
                               {"malloc_worst_ns", "free_worst_ns", 1.0}};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "The times of single calls of malloc and free.");
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  const uint64_t objects = arguments.Number("OBJECTS", 20'000, 1, 1'000'000'000);
  const uint64_t calls = arguments.Number("CALLS", 3'000'000, 1, 1'000'000'000'000);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  const uint64_t reading = TicksOfAReading();
  MappedArray<Object> all(threads * objects);
  MappedArray<Latencies> latencies(threads);
  const uint64_t start = Ticks();
  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    Work(all.elements().subspan(thread * objects, objects), calls, seed + thread, reading,
         &latencies[thread]);
  });
  part.End();
  const double ns_per_tick = part.wall_s() * 1e9 / static_cast<double>(Ticks() - start);

  Latencies& sum = latencies[0];
  for (size_t i = 1; i < threads; ++i) {
    sum.of_malloc.Add(latencies[i].of_malloc);
    sum.of_free.Add(latencies[i].of_free);
  }
  Report report("call-latency", part);
  for (const Figure& figure : kFigures) {
    const auto ns = [&](const Histogram& of) {
      return static_cast<double>(of.Quantile(figure.share)) * ns_per_tick;
    };
    report.Value(figure.name_of_malloc, ns(sum.of_malloc), "ns", Better::kLower);
    report.Value(figure.name_of_free, ns(sum.of_free), "ns", Better::kLower);
  }
  report.Series("latency", {"ns", "slower_mallocs", "slower_frees"},
                std::span<const std::array<double, 3>>(Shares(sum, ns_per_tick)));
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
