// SPDX-License-Identifier: BSD-3-Clause
#include "bench/micro/statistics.h"

#include <gtest/gtest.h>

#include <vector>

#include "bench/common/random.h"

namespace tcmalloc::bench {
namespace {

using Sample = std::vector<double>;

TEST(Median, OfAnOddNumberIsTheMiddleOne) { EXPECT_EQ(Median(Sample{9, 1, 4}), 4); }

TEST(Median, OfAnEvenNumberIsBetweenTheMiddleTwo) { EXPECT_EQ(Median(Sample{8, 1, 4, 2}), 3); }

TEST(Median, IsNotMovedByAnOutlier) { EXPECT_EQ(Median(Sample{2, 2, 2, 2, 1000}), 2); }

TEST(Quantile, EndsAreMinimumAndMaximum) {
  const Sample sample = {5, 3, 11, 7};
  EXPECT_EQ(Quantile(sample, 0), 3);
  EXPECT_EQ(Quantile(sample, 1), 11);
}

TEST(Quantile, IsLinearBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(Quantile(Sample{10, 20, 30, 40}, 0.1), 13);
}

TEST(Quantile, OfOneValueIsThatValue) {
  for (const double q : {0.0, 0.3, 1.0}) EXPECT_EQ(Quantile(Sample{6}, q), 6);
}

TEST(Quartiles, HoldTheMiddleHalf) {
  const Interval quartiles = Quartiles(Sample{5, 1, 4, 2, 3});
  EXPECT_EQ(quartiles.low, 2);
  EXPECT_EQ(quartiles.high, 4);
}

TEST(BootstrapMedian, OfEqualValuesHasNoWidth) {
  const Interval interval = BootstrapMedian(Sample(21, 1.25), 0.95, 1);
  EXPECT_EQ(interval.low, 1.25);
  EXPECT_EQ(interval.high, 1.25);
}

TEST(BootstrapMedian, IsAFunctionOfItsSeed) {
  Random random(3);
  Sample sample;
  for (int i = 0; i < 20; ++i) sample.push_back(static_cast<double>(random.Below(1'000'000)));
  const Interval first = BootstrapMedian(sample, 0.95, 7);
  const Interval again = BootstrapMedian(sample, 0.95, 7);
  EXPECT_EQ(first.low, again.low);
  EXPECT_EQ(first.high, again.high);
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

// A 95 % interval must hold the true median in about 95 % of experiments; the interval for a median
// of 21 values is known to be a little too wide.
TEST(BootstrapMedian, CoversTheTrueMedian) {
  Random random(11);
  const int experiments = 300;
  int covered = 0;
  for (int i = 0; i < experiments; ++i) {
    Sample sample;
    for (int j = 0; j < 21; ++j) sample.push_back(static_cast<double>(random.Below(1'000'001)));
    const Interval interval = BootstrapMedian(sample, 0.95, random.Next());
    if (interval.low <= 500'000 && 500'000 <= interval.high) ++covered;
  }
  EXPECT_GE(covered, experiments * 90 / 100);
  EXPECT_LE(covered, experiments * 99 / 100);
}

TEST(PairedRatio, PairsByRound) {
  // Each round is 10 times as slow as the one before, but the ratio is always 0.8.
  const RatioEstimate ratio = PairedRatio(Sample{0.8, 8, 80}, Sample{1, 10, 100}, 1);
  EXPECT_DOUBLE_EQ(ratio.median, 0.8);
  EXPECT_DOUBLE_EQ(ratio.interval.low, 0.8);
  EXPECT_DOUBLE_EQ(ratio.interval.high, 0.8);
}

// As above for 9 rounds: 0.030 for k = 2, so the 2.5 % point is 2 (and the 5 % point would be 3).
TEST(PairedRatio, HasA95PercentInterval) {
  const RatioEstimate ratio = PairedRatio(Sample{1, 2, 3, 4, 5, 6, 7, 8, 9}, Sample(9, 1.0), 1);
  EXPECT_EQ(ratio.median, 5);
  EXPECT_EQ(ratio.interval.low, 2);
  EXPECT_EQ(ratio.interval.high, 8);
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

TEST(FastestSeries, PassesOverEmptyOnes) {
  EXPECT_EQ(FastestSeries(std::vector<Sample>{{}, {2}, {}}), 1u);
  EXPECT_EQ(FastestSeries(std::vector<Sample>{{}, {}}), 2u);
}

}  // namespace
}  // namespace tcmalloc::bench
