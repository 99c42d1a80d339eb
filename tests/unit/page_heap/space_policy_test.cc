// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/space_policy.h"

#include <gtest/gtest.h>

#include "base/tuning.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

TEST(SpacePolicyTest, WhatIsSpareIsNotSaved) {
  EXPECT_FALSE(SavesSpace(MiB(0), MiB(0), kTuning.placement.spare_space));
  EXPECT_FALSE(SavesSpace(MiB(64), MiB(0), kTuning.placement.spare_space));
  EXPECT_TRUE(SavesSpace(MiB(64) + Length(1), MiB(0), kTuning.placement.spare_space));
}

TEST(SpacePolicyTest, NorIsASixteenthOfWhatWasNeeded) {
  EXPECT_FALSE(SavesSpace(MiB(160 + 10 + 64), MiB(160), kTuning.placement.spare_space));
  EXPECT_TRUE(SavesSpace(MiB(160 + 10 + 64) + Length(1), MiB(160), kTuning.placement.spare_space));
  EXPECT_FALSE(SavesSpace(MiB(102400), MiB(100000), kTuning.placement.spare_space));
  EXPECT_TRUE(SavesSpace(MiB(106400), MiB(100000), kTuning.placement.spare_space));
}

}  // namespace
}  // namespace tcmalloc
