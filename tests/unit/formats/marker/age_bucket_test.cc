// SPDX-License-Identifier: BSD-3-Clause
#include "formats/marker/age_bucket.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

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
