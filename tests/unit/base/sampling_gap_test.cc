// SPDX-License-Identifier: BSD-3-Clause
#include "base/sampling_gap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

namespace tcmalloc {
namespace {

TEST(SampleGapTest, LogarithmAgreesWithTheMathematicsLibrary) {
  std::mt19937_64 random(20261122);
  std::uniform_real_distribution<double> exponent(-700, 700);
  for (int i = 0; i < 100'000; ++i) {
    const double x = std::exp(exponent(random));
    EXPECT_NEAR(NaturalLog(x), std::log(x), std::abs(std::log(x)) * 1e-11) << x;
  }
  for (const double x : {1.0, 0x1p-53, 0.5, 2.0, 1 - 0x1p-53, 1 + 0x1p-52, 1.4142135623730951,
                         std::nextafter(1.4142135623730951, 2)}) {
    EXPECT_NEAR(NaturalLog(x), std::log(x), std::abs(std::log(x)) * 1e-11) << x;
  }
}

TEST(SampleGapTest, ProbabilityAgreesWithTheMathematicsLibrary) {
  std::mt19937_64 random(20261122);
  std::uniform_real_distribution<double> exponent(-40, 8);
  for (int i = 0; i < 100'000; ++i) {
    const double x = std::exp(exponent(random));
    EXPECT_NEAR(OneMinusExp(x), -std::expm1(-x), -std::expm1(-x) * 1e-11) << x;
  }
  EXPECT_EQ(OneMinusExp(0), 0);
  EXPECT_EQ(OneMinusExp(1e300), 1);
}

TEST(SampleGapTest, ALargeObjectRepresentsItself) {
  EXPECT_NEAR(SampleWeight(1000, 1000), 1 / (1 - std::exp(-1.0)), 1e-9);
  EXPECT_NEAR(SampleWeight(1, 524288), 524288.5, 0.01);
  EXPECT_NEAR(SampleWeight(size_t{1} << 30, 524288), 1, 1e-12);
}

// The share of gaps of k or more, with mean T, is e^(-k/T).
TEST(SampleGapTest, GapsAreDistributedExponentially) {
  constexpr int kGaps = 1'000'000;
  for (const size_t mean : {size_t{4096}, size_t{524288}}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SampleGaps gaps(seed);
      double sum = 0;
      int above[3] = {};
      const double kBounds[3] = {0.1, 1, 3};
      for (int i = 0; i < kGaps; ++i) {
        const double gap = static_cast<double>(gaps.Next(mean)) / static_cast<double>(mean);
        sum += gap;
        for (int j = 0; j < 3; ++j) above[j] += gap >= kBounds[j];
      }
      // The tolerance is three standard errors and the effect of rounding down.
      EXPECT_NEAR(sum / kGaps, 1, 3 / std::sqrt(kGaps) + 1.0 / static_cast<double>(mean)) << seed;
      for (int j = 0; j < 3; ++j) {
        const double p = std::exp(-kBounds[j]);
        EXPECT_NEAR(above[j] / double{kGaps}, p, 4 * std::sqrt(p * (1 - p) / kGaps))
            << seed << " " << kBounds[j];
      }
    }
  }
}

class CountdownTest : public ::testing::Test {
 protected:
  CountdownTest() { countdown_.Reset(counter_); }

  // Counts as the fast path does. False when the slow path must count.
  bool Fast(size_t bytes) {
    const size_t left = counter_.load();
    if (left < bytes) return false;
    counter_.store(left - bytes);
    return true;
  }

  std::atomic<size_t> counter_{0};
  Countdown countdown_;
};

TEST_F(CountdownTest, NothingIsDueAtFirst) {
  for (const size_t bytes : {size_t{0}, size_t{1}, Countdown::kNever - 1, Countdown::kNever,
                             Countdown::kNever + 1, SIZE_MAX / 2}) {
    const Countdown::Due due = countdown_.Count(counter_, bytes);
    EXPECT_FALSE(due.sample || due.gap_lost) << bytes;
  }
  EXPECT_EQ(counter_, Countdown::kNever);
}

// Compares with a model that adds up the bytes. Whichever path an allocation takes, a sample is due
// when the allocation needs more bytes than were left.
TEST_F(CountdownTest, ASampleIsDueWhenAModelSaysSo) {
  std::mt19937_64 random(20261122);
  size_t left = 0;
  size_t samples = 0;
  countdown_.SetSample(counter_, 0, 1);
  for (int i = 0; i < 1'000'000; ++i) {
    const size_t bytes = random() % 100;
    const bool sample_due = left < bytes;
    // Now and then takes the slow path although the fast path would do.
    if (random() % 4 != 0 && Fast(bytes)) {
      ASSERT_FALSE(sample_due) << i;
      left -= bytes;
      continue;
    }
    const Countdown::Due due = countdown_.Count(counter_, bytes);
    ASSERT_EQ(due.sample, sample_due) << i;
    ASSERT_FALSE(due.gap_lost);
    left -= sample_due ? 0 : bytes;
    if (sample_due) countdown_.SetSample(counter_, left = random() % 3000, 1);
    samples += sample_due;
  }
  EXPECT_GT(samples, 10'000u);
}

TEST_F(CountdownTest, AnAlarmLosesTheGap) {
  countdown_.SetSample(counter_, 500, 7);
  countdown_.Alarm(counter_);
  EXPECT_FALSE(Fast(1));
  Countdown::Due due = countdown_.Count(counter_, 10);
  EXPECT_FALSE(due.sample);
  EXPECT_TRUE(due.gap_lost);
  // The gap is lost until it is set again.
  EXPECT_FALSE(Fast(1));
  EXPECT_TRUE(countdown_.Count(counter_, 10).gap_lost);
  countdown_.SetSample(counter_, 500, 7);
  due = countdown_.Count(counter_, 10);
  EXPECT_FALSE(due.sample || due.gap_lost);
  EXPECT_EQ(counter_, 490u);
}

TEST_F(CountdownTest, AnAlarmWithoutSamplesLosesNothing) {
  countdown_.Alarm(counter_);
  EXPECT_FALSE(Fast(1));
  const Countdown::Due due = countdown_.Count(counter_, 10);
  EXPECT_FALSE(due.sample || due.gap_lost);
  EXPECT_EQ(counter_, Countdown::kNever);
}

// The alarm comes while the owner is about to store its own count.
TEST_F(CountdownTest, AnAlarmThatIsOverwrittenIsNotHeard) {
  countdown_.SetSample(counter_, 500, 7);
  const size_t left = counter_.load();
  countdown_.Alarm(counter_);
  counter_.store(left - 100);
  Countdown::Due due = countdown_.Count(counter_, 399);
  EXPECT_FALSE(due.sample || due.gap_lost);
  due = countdown_.Count(counter_, 2);
  EXPECT_TRUE(due.sample);
  EXPECT_FALSE(due.gap_lost);
}

// The fast path used the counter up to 0: that is not an alarm.
TEST_F(CountdownTest, AGapThatIsUsedUpIsNotLost) {
  countdown_.SetSample(counter_, 500, 7);
  ASSERT_TRUE(Fast(500));
  ASSERT_FALSE(Fast(1));
  const Countdown::Due due = countdown_.Count(counter_, 1);
  EXPECT_TRUE(due.sample);
  EXPECT_FALSE(due.gap_lost);
  EXPECT_EQ(countdown_.generation(), 7u);
}

}  // namespace
}  // namespace tcmalloc
