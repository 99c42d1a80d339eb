// SPDX-License-Identifier: BSD-3-Clause
#include "bench/micro/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace tcmalloc::bench {
namespace {

using Sample = std::vector<double>;

TEST(Quantile, IsLinearBetweenNeighbours) {
  const Sample sample = {20, 10, 40, 30};
  EXPECT_EQ(Quantile(sample, 0), 10);
  EXPECT_EQ(Quantile(sample, 1), 40);
  EXPECT_DOUBLE_EQ(Quantile(sample, 0.1), 13);
  EXPECT_EQ(Median(sample), 25);
}

TEST(Quartiles, HoldTheMiddleHalf) {
  const Interval quartiles = Quartiles(Sample{5, 1, 4, 2, 3});
  EXPECT_EQ(quartiles.low, 2);
  EXPECT_EQ(quartiles.high, 4);
}

// With 1..21 for a sample, a resample's median is at most k exactly when at least 11 of its 21
// draws are: a binomial tail, 0.018 for k = 6, 0.056 for 7, 0.131 for 8. So the 2.5 % point is 7
// and the 10 % point 8; the upper ends follow by symmetry.
TEST(BootstrapMedian, AgreesWithTheBinomialDistribution) {
  Sample sample;
  for (int i = 1; i <= 21; ++i) sample.push_back(i);
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const Interval interval = BootstrapMedian(sample, 0.95, seed);
    EXPECT_EQ(interval.low, 7) << "seed " << seed;
    EXPECT_EQ(interval.high, 15) << "seed " << seed;
    const Interval narrower = BootstrapMedian(sample, 0.8, seed);
    EXPECT_EQ(narrower.low, 8) << "seed " << seed;
    EXPECT_EQ(narrower.high, 14) << "seed " << seed;
  }
}

TEST(PairedRatio, PairsByRound) {
  // Each round is 10 times as slow as the one before, but the ratio is always 0.8.
  const RatioEstimate ratio = PairedRatio(Sample{0.8, 8, 80}, Sample{1, 10, 100}, 1);
  EXPECT_DOUBLE_EQ(ratio.median, 0.8);
  EXPECT_DOUBLE_EQ(ratio.interval.low, 0.8);
  EXPECT_DOUBLE_EQ(ratio.interval.high, 0.8);
}

TEST(RatioEstimate, IsNotSlowerWhenItsIntervalReachesOne) {
  EXPECT_TRUE((RatioEstimate{.median = 0.9, .interval = {0.8, 0.95}}.not_slower()));
  EXPECT_TRUE((RatioEstimate{.median = 1.02, .interval = {1.0, 1.04}}.not_slower()));
  EXPECT_FALSE((RatioEstimate{.median = 1.02, .interval = {1.001, 1.04}}.not_slower()));
}

TEST(FastestSeries, HasTheSmallestMedian) {
  // The third series has the smallest value and the smallest mean.
  const std::vector<Sample> series = {{4, 4, 4}, {1, 5, 5}, {0, 4.5, 5}, {3, 3, 90}};
  EXPECT_EQ(FastestSeries(series), 3u);
}

}  // namespace
}  // namespace tcmalloc::bench
