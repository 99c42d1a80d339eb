// SPDX-License-Identifier: BSD-3-Clause
#include "page/release_pace.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

// Pages freed one by one until it is time; 0 when that does not come within `limit`.
int64_t Wait(ReleasePace& pace, int64_t limit = int64_t{1} << 22) {
  for (int64_t pages = 1; pages <= limit; ++pages) {
    if (pace.PagesFreed(Length(1))) return pages;
  }
  return 0;
}

TEST(ReleasePaceTest, RateZeroNeverReleases) {
  ReleasePace pace;
  pace.SetRate(0);
  EXPECT_EQ(Wait(pace), 0);
  EXPECT_FALSE(pace.PagesFreed(Length(SIZE_MAX >> kPageShift)));
  // Nor after a release that was asked for.
  pace.Released(Length(10));
  EXPECT_EQ(Wait(pace), 0);
  pace.Released(Length(0));
  EXPECT_EQ(Wait(pace), 0);
}

TEST(ReleasePaceTest, TheFirstFreePagesStartIt) {
  ReleasePace pace;
  EXPECT_EQ(pace.rate(), ReleasePace::kDefaultRate);
  EXPECT_EQ(Wait(pace), 1);
}

TEST(ReleasePaceTest, WaitsInProportionToWhatWentAndInverselyToTheRate) {
  for (const double rate : {0.5, 1.0, 4.0, 10.0, 1000.0}) {
    for (const size_t pages : {size_t{1}, size_t{7}, size_t{100}, size_t{1024}}) {
      ReleasePace pace;
      pace.SetRate(rate);
      pace.Released(Length(pages));
      int64_t expected = static_cast<int64_t>(1000.0 / rate * static_cast<double>(pages));
      if (expected > ReleasePace::kMaxWait) expected = ReleasePace::kMaxWait;
      EXPECT_EQ(Wait(pace), expected + 1) << rate << " " << pages;
    }
  }
}

TEST(ReleasePaceTest, NoWaitIsLongerThanTheLongest) {
  ReleasePace pace;
  pace.SetRate(1e-300);
  pace.Released(Length(SIZE_MAX >> kPageShift));
  EXPECT_EQ(Wait(pace), ReleasePace::kMaxWait + 1);
}

TEST(ReleasePaceTest, WaitsWhenThereWasNothingToGive) {
  ReleasePace pace;
  pace.SetRate(10);
  pace.Released(Length(0));
  EXPECT_EQ(Wait(pace), ReleasePace::kIdleWait + 1);
}

TEST(ReleasePaceTest, CountsPagesNotCalls) {
  ReleasePace pace;
  pace.Released(Length(1));
  EXPECT_FALSE(pace.PagesFreed(Length(1000)));
  EXPECT_TRUE(pace.PagesFreed(Length(1)));
  // It stays time until something comes of it.
  EXPECT_TRUE(pace.PagesFreed(Length(1)));
  pace.Released(Length(1));
  EXPECT_TRUE(pace.PagesFreed(Length(1001)));
}

TEST(ReleasePaceTest, ANewRateEndsThePauseOfTheOldOne) {
  ReleasePace pace;
  pace.SetRate(0.001);
  pace.Released(Length(1024));
  EXPECT_FALSE(pace.PagesFreed(Length(1000)));
  pace.SetRate(10);
  EXPECT_EQ(pace.rate(), 10);
  EXPECT_EQ(Wait(pace), 1);
}

}  // namespace
}  // namespace tcmalloc
