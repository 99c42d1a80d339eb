// SPDX-License-Identifier: BSD-3-Clause
#include "cache/bin_policy.h"

#include <gtest/gtest.h>

#include <vector>

#include "testing/heap_fixture.h"

namespace tcmalloc {
namespace {

using namespace bin_policy;  // NOLINT: what is tested

std::vector<size_t> GrowthOf(size_t object_size) {
  const SizeClass c = ClassForSize(object_size);
  std::vector<size_t> sequence;
  for (size_t capacity = 0; NextCapacity(c, capacity) != capacity;) {
    capacity = NextCapacity(c, capacity);
    sequence.push_back(capacity);
  }
  return sequence;
}

TEST(BinPolicyTest, GrowthOfSomeClasses) {
  // A line's worth, doubled up to a batch of 128, then a batch at a time up to the most slots of an
  // array.
  EXPECT_EQ(GrowthOf(8),
            (std::vector<size_t>{8,   16,   32,   64,   128,  256,  384,  512,  640,  768,
                                 896, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2046}));
  EXPECT_EQ(GrowthOf(64),
            (std::vector<size_t>{4,   8,    16,   32,   64,   128,  256,  384,  512,  640, 768,
                                 896, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2046}));
  EXPECT_EQ(GrowthOf(256), (std::vector<size_t>{4, 8, 16, 32, 64, 128, 256, 384, 512}));
  // A batch of 64.
  EXPECT_EQ(GrowthOf(1024), (std::vector<size_t>{4, 8, 16, 32, 64, 128}));
  EXPECT_EQ(GrowthOf(8192), (std::vector<size_t>{4, 8, 16}));
  EXPECT_EQ(GrowthOf(32768), (std::vector<size_t>{4}));
  EXPECT_EQ(GrowthOf(65536), (std::vector<size_t>{2}));
  EXPECT_EQ(GrowthOf(262144), (std::vector<size_t>{2}));
}

TEST(BinPolicyTest, BoundsHoldForEveryClassAndCapacity) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const size_t size = kSizeClasses.size(c);
    const size_t max = MaxCapacity(c);
    ASSERT_GE(max, 2u);
    ASSERT_LE(max, kMaxObjects);
    ASSERT_TRUE(max == 2 || max * size <= kMaxBytes);
    ASSERT_GE(LineObjects(c) * size, kCacheLineSize);
    ASSERT_LT((LineObjects(c) - 1) * size, kCacheLineSize);
    ASSERT_EQ(NextCapacity(c, 0), InitialCapacity(c));
    ASSERT_TRUE(InitialCapacity(c) >= 4 || InitialCapacity(c) == max);
    ASSERT_TRUE(InitialCapacity(c) >= LineObjects(c));
    for (size_t capacity = 0; capacity <= max; ++capacity) {
      const size_t next = NextCapacity(c, capacity);
      ASSERT_LE(next, max);
      // Always larger until it cannot be.
      ASSERT_TRUE(next > capacity || capacity == max) << "class " << i << " at " << capacity;
      // Slow start: never more than twice, or a batch more.
      if (capacity > 0) {
        ASSERT_LE(next, std::max(2 * capacity, capacity + kSizeClasses.batch_size(c)));
        ASSERT_LE(next, capacity < kSizeClasses.batch_size(c)
                            ? 2 * capacity
                            : capacity + kSizeClasses.batch_size(c));
      }
    }
  }
}

TEST(BinPolicyTest, MonotoneInTheCapacity) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    for (size_t capacity = 2; capacity <= MaxCapacity(c); ++capacity) {
      ASSERT_GE(NextCapacity(c, capacity), NextCapacity(c, capacity - 1));
      ASSERT_GE(RefillCount(c, capacity), RefillCount(c, capacity - 1));
      ASSERT_GE(OverflowCount(capacity), OverflowCount(capacity - 1));
    }
  }
}

TEST(BinPolicyTest, MonotoneInTheSize) {
  for (size_t i = 2; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const SizeClass smaller = static_cast<SizeClass>(i - 1);
    ASSERT_LE(MaxCapacity(c), MaxCapacity(smaller));
    ASSERT_LE(InitialCapacity(c), InitialCapacity(smaller));
    ASSERT_LE(LineObjects(c), LineObjects(smaller));
  }
}

TEST(BinPolicyTest, ARefillBringsALineAndFits) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    // No bin: the one object that was asked for.
    ASSERT_EQ(RefillCount(c, 0), 1u);
    for (size_t capacity = InitialCapacity(c); capacity <= MaxCapacity(c); ++capacity) {
      const size_t n = RefillCount(c, capacity);
      ASSERT_GE(n * kSizeClasses.size(c), kCacheLineSize);
      ASSERT_LE(n, capacity);
      ASSERT_LE(n, kMaxMove);
      if (capacity / 2 >= LineObjects(c) && capacity / 2 <= kMaxMove) {
        ASSERT_EQ(n, capacity / 2);
      }
    }
  }
}

TEST(BinPolicyTest, AnOverflowMakesRoomForOneAndKeepsTheNewerHalf) {
  for (size_t capacity = 1; capacity <= kMaxObjects; ++capacity) {
    const size_t n = OverflowCount(capacity);
    ASSERT_GE(n, 1u);
    ASSERT_EQ(n, (capacity + 1) / 2);
  }
}

}  // namespace
}  // namespace tcmalloc
