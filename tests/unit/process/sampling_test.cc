// SPDX-License-Identifier: BSD-3-Clause
#include "process/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "process/new_heap.h"
#include "thread_cache/cache_fixture.h"

namespace tcmalloc {
namespace {

class SamplingTest : public ::testing::Test {
 protected:
  // Counts as malloc does: on the fast path, else on the slow path. True if the allocation is
  // sampled.
  bool Allocate(ThreadCache* cache, size_t bytes) {
    std::atomic<size_t>& counter = cache->table().bins().bytes_until_sample;
    const size_t left = counter.load();
    if (left >= bytes && random_() % 8 != 0) {
      counter.store(left - bytes);
      return false;
    }
    return sampling_.Count(cache, bytes);
  }

  std::mt19937_64 random_{20261122};
  Heap& heap_ = NewHeap();
  TestThread thread_{heap_.registry};
  Sampling sampling_;
};

// Allocates mixed sizes, with alarms in between, with a cache and without. For each size, the sum
// of the weights is the number of allocated objects and bytes, within three standard errors. One of
// the 20 times 4 pairs of a seed and a size may be outside of these bounds, and all together are
// within one percent.
TEST_F(SamplingTest, WeightsAddUpToWhatWasAllocated) {
  constexpr size_t kPeriod = 16384;
  constexpr size_t kSizes[] = {16, 400, 20'000, 300'000};
  constexpr int kOfEach = 100'000;
  for (const bool with_cache : {true, false}) {
    int misses = 0;
    double bias[4] = {};
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      sampling_.SetSeed(seed);
      sampling_.SetPeriod(kPeriod);
      int sampled[4] = {};
      for (int i = 0; i < 4 * kOfEach; ++i) {
        const size_t which = i % 4;
        if (i % 1000 == 0) thread_.cache()->Alarm();
        sampled[which] += with_cache ? Allocate(thread_.cache(), kSizes[which])
                                     : sampling_.Count(nullptr, kSizes[which]);
      }
      for (int j = 0; j < 4; ++j) {
        const double weight = SampleWeight(kSizes[j], kPeriod);
        const double p = 1 / weight;
        const double error = weight * sampled[j] / kOfEach - 1;
        bias[j] += error / 20;
        if (std::abs(error) > 3 * std::sqrt((1 - p) / p / kOfEach)) {
          ++misses;
          EXPECT_LE(misses, 1) << seed << " " << kSizes[j] << " " << error << " " << with_cache;
        }
      }
    }
    for (int j = 0; j < 4; ++j) {
      const double p = 1 / SampleWeight(kSizes[j], kPeriod);
      EXPECT_LT(std::abs(bias[j]), std::max(0.01, 3 * std::sqrt((1 - p) / p / kOfEach / 20)))
          << kSizes[j] << " " << with_cache;
    }
  }
}

}  // namespace
}  // namespace tcmalloc
