// SPDX-License-Identifier: BSD-3-Clause

// lru: each thread has a cache of values whose sizes follow a Pareto distribution: most are small,
// and a few take much of the memory. A thread looks up values by keys of uneven popularity. It adds
// a missing value, and removes the least recently used ones until the cache holds at most MIB.
// `hits` depends on the seed alone.
#include <algorithm>
#include <cmath>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr double kParetoShape = 1.16;  // a fifth of the values holds four fifths of the bytes
constexpr double kSmallest = 32;
constexpr double kLargest = 256 * 1024;
constexpr size_t kSizes = 1 << 14;

// Sizes at evenly spaced quantiles of the distribution: drawing one is a lookup in a table.
class ParetoSizes {
 public:
  ParetoSizes() : sizes_(kSizes) {
    for (size_t i = 0; i < kSizes; ++i) {
      const double quantile = (static_cast<double>(i) + 0.5) / kSizes;
      const double size = kSmallest * std::pow(1 - quantile, -1 / kParetoShape);
      sizes_[i] = static_cast<uint32_t>(std::min(size, kLargest));
    }
  }
  // Returns the size of the value with that key, which is always the same.
  uint32_t OfKey(uint64_t key) const { return sizes_[Random(key).FastBelow(kSizes)]; }

 private:
  MappedArray<uint32_t> sizes_;
};

struct Entry {
  Entry* newer;
  Entry* older;
  Entry* next_in_bucket;
  uint64_t key;
  Object value;
};

class Cache {
 public:
  Cache(const ParetoSizes& sizes, uint64_t buckets, uint64_t capacity_bytes)
      : sizes_(sizes), buckets_(buckets), capacity_bytes_(capacity_bytes) {
    ends_.newer = ends_.older = &ends_;
  }

  // Returns whether the key was in the cache.
  bool LookUp(uint64_t key) {
    for (Entry* entry = *Bucket(key); entry != nullptr; entry = entry->next_in_bucket) {
      if (entry->key != key) continue;
      entry->value.CheckFront();
      Unlink(entry);
      LinkAsNewest(entry);
      return true;
    }
    Insert(key);
    while (bytes_ > capacity_bytes_) Evict(ends_.newer);
    return false;
  }

  void Clear() {
    while (ends_.newer != &ends_) Evict(ends_.newer);
  }

 private:
  Entry** Bucket(uint64_t key) { return &buckets_[key % buckets_.size()]; }

  void Insert(uint64_t key) {
    auto* const entry = static_cast<Entry*>(Allocate(sizeof(Entry)));
    entry->key = key;
    entry->value = Object::New(sizes_.OfKey(key), static_cast<uint32_t>(key));
    memset(entry->value.memory, 0, entry->value.size);
    entry->value.MarkThroughout();
    bytes_ += entry->value.size;
    Entry** const bucket = Bucket(key);
    entry->next_in_bucket = *bucket;
    *bucket = entry;
    LinkAsNewest(entry);
  }

  void Evict(Entry* entry) {
    Unlink(entry);
    Entry** link = Bucket(entry->key);
    while (*link != entry) link = &(*link)->next_in_bucket;
    *link = entry->next_in_bucket;
    entry->value.Check();
    bytes_ -= entry->value.size;
    free(entry->value.memory);
    free(entry);
  }

  static void Unlink(Entry* entry) {
    entry->newer->older = entry->older;
    entry->older->newer = entry->newer;
  }
  void LinkAsNewest(Entry* entry) {
    entry->newer = &ends_;
    entry->older = ends_.older;
    ends_.older->newer = entry;
    ends_.older = entry;
  }

  const ParetoSizes& sizes_;
  MappedArray<Entry*> buckets_;
  const uint64_t capacity_bytes_;
  uint64_t bytes_ = 0;
  // Closes the ring: its `older` is the newest entry, its `newer` the oldest.
  Entry ends_;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Caches of values with Pareto-distributed sizes.");
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  const uint64_t mib = arguments.Number("MIB", 32, 1, 1 << 17);
  const uint64_t operations = arguments.Number("OPERATIONS", 2'000'000, 1, 1'000'000'000);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  // About four times as many keys as there is room for.
  const uint64_t keys = mib << 14;
  const ParetoSizes sizes;
  MappedArray<uint64_t> hits(threads);
  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    Random random(seed + thread);
    Cache cache(sizes, keys, mib << 20);
    uint64_t own_hits = 0;
    for (uint64_t i = 0; i < operations; ++i) {
      // The product of two fractions: small keys are popular.
      const uint32_t below = random.FastBelow(keys) + 1;
      own_hits += cache.LookUp(random.FastBelow(below)) ? 1 : 0;
    }
    cache.Clear();
    hits[thread] = own_hits;
  });
  part.End();
  uint64_t all_hits = 0;
  for (const uint64_t count : hits) all_hits += count;
  Report report("lru", part);
  report.Value("time_s", part.wall_s(), "s", Better::kLower);
  report.Value("hits", static_cast<double>(all_hits) / static_cast<double>(threads * operations),
               "1", Better::kHigher);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
