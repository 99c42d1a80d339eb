// SPDX-License-Identifier: BSD-3-Clause
#include "central/transfer_policy.h"

#include <gtest/gtest.h>

#include "testing/heap_fixture.h"

namespace tcmalloc::transfer_policy {
namespace {

TEST(TransferPolicyTest, AClassHoldsAQuarterOfAMebibyteAtMost) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const size_t bytes = BatchBytes(c);
    ASSERT_EQ(bytes, kSizeClasses.batch_size(c) * kSizeClasses.size(c));
    EXPECT_LE(MaxSlots(c) * bytes, kTuning.transfer.max_class_bytes);
    EXPECT_LE(MaxSlots(c), kTuning.transfer.max_class_batches);
    // As many as that allows.
    EXPECT_TRUE(MaxSlots(c) == kTuning.transfer.max_class_batches ||
                (MaxSlots(c) + 1) * bytes > kTuning.transfer.max_class_bytes);
  }
  EXPECT_EQ(MaxSlots(ClassForSize(8)), 64u);
  EXPECT_GE(MaxSlots(ClassForSize(1024)), 4u);
  EXPECT_EQ(MaxSlots(ClassForSize(kMaxSmallSize)), 0u);
}

// What the comment on kTuning.transfer.max_shard_bytes says.
TEST(TransferPolicyTest, TheBudgetIsEnoughForSomeClassesAndNotForAll) {
  EXPECT_EQ(kTuning.transfer.max_shard_bytes, 4 * kTuning.transfer.max_class_bytes);
  size_t all = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    all += MaxSlots(static_cast<SizeClass>(i)) * BatchBytes(static_cast<SizeClass>(i));
  }
  EXPECT_GT(all, 4 * kTuning.transfer.max_shard_bytes);
}

TEST(TransferPolicyTest, OnlyAFullCacheWantsASlotAndOnlyUpToItsMaximum) {
  EXPECT_TRUE(WantsSlot(0, 0, 4));
  EXPECT_TRUE(WantsSlot(3, 3, 4));
  EXPECT_FALSE(WantsSlot(2, 3, 4));
  EXPECT_FALSE(WantsSlot(4, 4, 4));
  EXPECT_FALSE(WantsSlot(0, 0, 0));
}

TEST(TransferPolicyTest, UnusedSlotsAreGivenAsFarAsTheyAreMissing) {
  // None unused, none given.
  EXPECT_EQ(SlotsToGive(3, 3, 1000, 5000), 0u);
  // Not more than there are.
  EXPECT_EQ(SlotsToGive(1, 4, 1000, 5000), 3u);
  // Not more than it takes: rounded up, since a part of a slot is worth nothing.
  EXPECT_EQ(SlotsToGive(0, 8, 1000, 5000), 5u);
  EXPECT_EQ(SlotsToGive(0, 8, 1000, 4001), 5u);
  EXPECT_EQ(SlotsToGive(0, 8, 1000, 1), 1u);
  EXPECT_EQ(SlotsToGive(0, 8, 1000, 0), 0u);
  EXPECT_EQ(SlotsToGive(5, 8, 65536, 1024), 1u);
}

}  // namespace
}  // namespace tcmalloc::transfer_policy
