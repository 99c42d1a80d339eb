// SPDX-License-Identifier: BSD-3-Clause
#include "tools/mark/age_bucket.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

TEST(AgeBucketTest, BucketsAreAdjacent) {
  EXPECT_EQ(AgeBucketOf(0), AgeBucket::kSecond);
  EXPECT_EQ(AgeBucketOf(999), AgeBucket::kSecond);
  EXPECT_EQ(AgeBucketOf(1'000), AgeBucket::kTenSeconds);
  EXPECT_EQ(AgeBucketOf(9'999), AgeBucket::kTenSeconds);
  EXPECT_EQ(AgeBucketOf(10'000), AgeBucket::kMinute);
  EXPECT_EQ(AgeBucketOf(59'999), AgeBucket::kMinute);
  EXPECT_EQ(AgeBucketOf(60'000), AgeBucket::kTenMinutes);
  EXPECT_EQ(AgeBucketOf(599'999), AgeBucket::kTenMinutes);
  EXPECT_EQ(AgeBucketOf(600'000), AgeBucket::kHour);
  EXPECT_EQ(AgeBucketOf(3'599'999), AgeBucket::kHour);
  EXPECT_EQ(AgeBucketOf(3'600'000), AgeBucket::kOlder);
}

TEST(AgeBucketTest, LastBucketIsOpenAndNegativeAgesAreInTheFirst) {
  EXPECT_EQ(AgeBucketOf(INT64_MAX), AgeBucket::kOlder);
  EXPECT_EQ(AgeBelowMs(AgeBucket::kOlder), INT64_MAX);
  EXPECT_EQ(AgeBucketOf(-1), AgeBucket::kSecond);
  EXPECT_EQ(AgeBucketOf(INT64_MIN), AgeBucket::kSecond);
}

TEST(AgeBucketTest, BoundsAgreeWithAgeBucketOf) {
  for (size_t i = 0; i < kNumAgeBuckets; ++i) {
    const auto bucket = static_cast<AgeBucket>(i);
    EXPECT_EQ(AgeBucketOf(AgeAtLeastMs(bucket)), bucket);
    if (i + 1 == kNumAgeBuckets) break;
    EXPECT_EQ(AgeBucketOf(AgeBelowMs(bucket) - 1), bucket);
    EXPECT_EQ(AgeBelowMs(bucket), AgeAtLeastMs(static_cast<AgeBucket>(i + 1)));
  }
}

}  // namespace
}  // namespace tcmalloc
