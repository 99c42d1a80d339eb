// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "base/sampling_gap.h"

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

}  // namespace
}  // namespace tcmalloc
