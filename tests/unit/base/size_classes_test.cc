// SPDX-License-Identifier: BSD-3-Clause
#include "base/size_classes.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/tuning.h"

namespace tcmalloc {
namespace {

constexpr SizeClass kFirstClass = static_cast<SizeClass>(1);
constexpr SizeClass kLastClass = static_cast<SizeClass>(kNumSizeClasses - 1);
constexpr size_t kLargestHardwarePage = size_t{64} << 10;

// The sizes of all classes, in order.
std::vector<size_t> ClassSizes() {
  std::vector<size_t> sizes;
  for (size_t c = 1; c < kNumSizeClasses; ++c) {
    sizes.push_back(kSizeClasses.size(static_cast<SizeClass>(c)));
  }
  return sizes;
}

TEST(SizeClassesTest, SizesGrowFrom8ToTheLargestSmallSize) {
  const std::vector<size_t> sizes = ClassSizes();
  EXPECT_EQ(sizes.front(), 8u);
  EXPECT_EQ(sizes.back(), kMaxSmallSize);
  for (size_t i = 1; i < sizes.size(); ++i) {
    EXPECT_LT(sizes[i - 1], sizes[i]);
    EXPECT_EQ(sizes[i] % kMinAlignment, 0u);
  }
  EXPECT_GE(sizes.size(), 80u);
  EXPECT_LE(sizes.size(), 100u);
}

TEST(SizeClassesTest, EveryPowerOfTwoIsAClass) {
  const std::vector<size_t> sizes = ClassSizes();
  const std::set<size_t> set(sizes.begin(), sizes.end());
  for (size_t size = 8; size <= kMaxSmallSize; size *= 2) EXPECT_EQ(set.count(size), 1u) << size;
}

TEST(SizeClassesTest, NoneHasNoSize) {
  EXPECT_EQ(kSizeClasses.size(SizeClass::kNone), 0u);
  EXPECT_EQ(kSizeClasses.batch_size(SizeClass::kNone), 0u);
}

TEST(SizeClassesTest, EveryRequestGetsTheSmallestClassThatHoldsIt) {
  const std::vector<size_t> sizes = ClassSizes();
  size_t expected = 0;
  for (size_t size = 0; size <= kMaxSmallSize; ++size) {
    while (sizes[expected] < size) ++expected;
    ASSERT_EQ(Index(kSizeClasses.ClassOf(size)), expected + 1) << size;
    if (size <= SizeClasses::kMaxFineSize) {
      const ScaledClass c = kSizeClasses.FineClassOf(size);
      ASSERT_EQ(Index(c), expected + 1) << size;
      ASSERT_TRUE(kSizeClasses.IsFineClassOf(c, size)) << size;
      const ScaledClass next = Scaled(static_cast<SizeClass>(expected + 2));
      ASSERT_FALSE(kSizeClasses.IsFineClassOf(next, size)) << size;
    } else {
      ASSERT_EQ(Index(kSizeClasses.CoarseClassOf(size)), expected + 1) << size;
    }
  }
}

TEST(SizeClassesTest, LargeRequestsHaveNoClass) {
  EXPECT_EQ(kSizeClasses.ClassOf(kMaxSmallSize + 1), SizeClass::kNone);
  EXPECT_EQ(kSizeClasses.ClassOf(SIZE_MAX), SizeClass::kNone);
}

TEST(SizeClassesTest, WasteStaysBelowAnEighthAbove128Bytes) {
  for (size_t size = 129; size <= kMaxSmallSize; ++size) {
    const size_t object = kSizeClasses.size(kSizeClasses.ClassOf(size));
    ASSERT_LT((object - size) * 8, object) << size;
  }
}

TEST(SizeClassesTest, WasteStaysBelowTheAlignmentUpTo128Bytes) {
  for (size_t size = 1; size <= 128; ++size) {
    ASSERT_LT(kSizeClasses.size(kSizeClasses.ClassOf(size)) - size, kMinAlignment) << size;
  }
}

// Every size with every alignment would make 14 times 256 Ki cases. Sizes around each class
// boundary, and every small size, suffice.
TEST(SizeClassesTest, AlignedRequestsGetTheSmallestClassOfMultiplesOfTheAlignment) {
  const std::vector<size_t> sizes = ClassSizes();
  std::set<size_t> requests;
  for (size_t size = 0; size <= 4096; ++size) requests.insert(size);
  for (const size_t size : sizes) requests.insert({size - 1, size, size + 1});
  requests.erase(kMaxSmallSize + 1);
  for (size_t alignment = 1; alignment <= kPageSize; alignment *= 2) {
    for (const size_t size : requests) {
      size_t expected = 0;
      while (expected < sizes.size() &&
             (sizes[expected] < size || sizes[expected] % alignment != 0)) {
        ++expected;
      }
      ASSERT_LT(expected, sizes.size());
      ASSERT_EQ(Index(kSizeClasses.ClassOf(size, alignment)), expected + 1)
          << size << " aligned to " << alignment;
    }
  }
}

TEST(SizeClassesTest, AlignedRequestsThatNoClassServesHaveNone) {
  EXPECT_EQ(kSizeClasses.ClassOf(1, 2 * kPageSize), SizeClass::kNone);
  EXPECT_EQ(kSizeClasses.ClassOf(1, uintptr_t{1} << (sizeof(uintptr_t) * 8 - 1)), SizeClass::kNone);
  EXPECT_EQ(kSizeClasses.ClassOf(kMaxSmallSize + 1, 8), SizeClass::kNone);
  EXPECT_EQ(kSizeClasses.ClassOf(SIZE_MAX, 8), SizeClass::kNone);
  EXPECT_EQ(kSizeClasses.ClassOf(kMaxSmallSize, kPageSize), kLastClass);
  EXPECT_EQ(kSizeClasses.ClassOf(0, 1), kFirstClass);
}

// Tests every class at every offset in its spans, including spans rounded up to hardware pages of
// 64 KiB.
TEST(SizeClassesTest, ObjectIndexIsExactAtEveryOffset) {
  for (size_t c = 1; c < kNumSizeClasses; ++c) {
    const SizeClass size_class = static_cast<SizeClass>(c);
    const size_t size = kSizeClasses.size(size_class);
    const size_t span = (kSizeClasses.span_pages(size_class).bytes() + kLargestHardwarePage - 1) &
                        ~(kLargestHardwarePage - 1);
    ASSERT_LE(span, kMaxSmallSpanBytes);
    size_t index = 0;
    size_t next_object = size;
    for (size_t offset = 0; offset < kMaxSmallSpanBytes; ++offset) {
      if (offset == next_object) {
        ++index;
        next_object += size;
      }
      if (kSizeClasses.ObjectIndex(size_class, offset) != index) {
        FAIL() << "class of " << size << " bytes, offset " << offset << ": "
               << kSizeClasses.ObjectIndex(size_class, offset) << " instead of " << index;
      }
    }
  }
}

// Tests the same offsets.
TEST(SizeClassesTest, ObjectStartIndexIsExactAtEveryOffset) {
  for (size_t c = 1; c < kNumSizeClasses; ++c) {
    const SizeClass size_class = static_cast<SizeClass>(c);
    const size_t size = kSizeClasses.size(size_class);
    size_t index = 0;
    size_t next_object = 0;
    for (size_t offset = 0; offset < kMaxSmallSpanBytes; ++offset) {
      size_t expected = SizeClasses::kNoObjectStart;
      if (offset == next_object) {
        expected = index++;
        next_object += size;
      }
      if (kSizeClasses.ObjectStartIndex(size_class, offset) != expected) {
        FAIL() << "class of " << size << " bytes, offset " << offset << ": "
               << kSizeClasses.ObjectStartIndex(size_class, offset) << " instead of " << expected;
      }
    }
  }
}

TEST(SizeClassesTest, LineBatchesAreTheFewestObjectsThatFillCacheLines) {
  for (size_t c = 1; c < kNumSizeClasses; ++c) {
    const SizeClass size_class = static_cast<SizeClass>(c);
    const size_t size = kSizeClasses.size(size_class);
    size_t expected = 1;
    while (expected * size % kCacheLineSize != 0) ++expected;
    EXPECT_EQ(kSizeClasses.line_objects(size_class), expected) << size;
    if (size >= 512) {
      EXPECT_EQ(expected, 1u) << size;
    }
  }
  EXPECT_EQ(kSizeClasses.line_objects(kSizeClasses.ClassOf(8)), 8u);
  EXPECT_EQ(kSizeClasses.line_objects(kSizeClasses.ClassOf(48)), 4u);
  EXPECT_EQ(kSizeClasses.line_objects(kSizeClasses.ClassOf(96)), 2u);
  EXPECT_EQ(kSizeClasses.line_objects(kSizeClasses.ClassOf(64)), 1u);
}

TEST(SizeClassesTest, SpansHoldObjectsAndWasteLittle) {
  for (size_t c = 1; c < kNumSizeClasses; ++c) {
    const SizeClass size_class = static_cast<SizeClass>(c);
    const size_t size = kSizeClasses.size(size_class);
    const size_t span = kSizeClasses.span_pages(size_class).bytes();
    EXPECT_GE(span / size, 1u) << size;
    EXPECT_LE((span % size) * 32, span) << size;
    // These numbers are those of Tuning::SizeClasses.
    if (size <= 1024) {
      EXPECT_GE(span / size, 128u) << size;
    } else if (size <= 8192) {
      EXPECT_GE(span / size, 8u) << size;
    }
  }
}

TEST(SizeClassesTest, BatchesAreAbout64KiB) {
  for (size_t c = 1; c < kNumSizeClasses; ++c) {
    const SizeClass size_class = static_cast<SizeClass>(c);
    const size_t size = kSizeClasses.size(size_class);
    const size_t batch = kSizeClasses.batch_size(size_class);
    EXPECT_GE(batch, kTuning.size_classes.min_batch_objects) << size;
    EXPECT_LE(batch, kMaxBatchSize) << size;
    if (batch > kTuning.size_classes.min_batch_objects) {
      EXPECT_LE(batch * size, size_t{64} << 10) << size;
    }
    if (batch < kMaxBatchSize) {
      EXPECT_GT((batch + 1) * size, size_t{64} << 10) << size;
    }
  }
}

}  // namespace
}  // namespace tcmalloc
