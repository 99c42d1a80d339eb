// SPDX-License-Identifier: BSD-3-Clause
#include "base/size_classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace tcmalloc {
namespace {

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
  for (size_t size = 8; size <= kMaxSmallSize; size *= 2) {
    EXPECT_TRUE(std::binary_search(sizes.begin(), sizes.end(), size)) << size;
  }
  EXPECT_EQ(kSizeClasses.size(SizeClass::kNone), 0u);
  EXPECT_EQ(kSizeClasses.batch_size(SizeClass::kNone), 0u);
}

TEST(SizeClassesTest, EveryRequestGetsTheSmallestClassThatHoldsIt) {
  const std::vector<size_t> sizes = ClassSizes();
  size_t expected = 0;
  for (size_t size = 0; size <= kMaxSmallSize; ++size) {
    while (sizes[expected] < size) ++expected;
    ASSERT_EQ(Index(kSizeClasses.ClassOf(size)), expected + 1) << size;
    const size_t waste = sizes[expected] - size;
    if (size > 128) {
      ASSERT_LT(waste * 8, sizes[expected]) << size;
    } else if (size > 0) {
      ASSERT_LT(waste, kMinAlignment) << size;
    }
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

TEST(SizeClassesTest, RequestsThatNoClassServesHaveNone) {
  for (const size_t size : {kMaxSmallSize + 1, SIZE_MAX}) {
    EXPECT_EQ(kSizeClasses.ClassOf(size), SizeClass::kNone);
    EXPECT_EQ(kSizeClasses.ClassOf(size, 8), SizeClass::kNone);
  }
  EXPECT_EQ(kSizeClasses.ClassOf(1, 2 * kPageSize), SizeClass::kNone);
  EXPECT_EQ(kSizeClasses.ClassOf(1, uintptr_t{1} << (sizeof(uintptr_t) * 8 - 1)), SizeClass::kNone);
}

// Tests every class at every offset in its spans, including spans rounded up to hardware pages of
// 64 KiB.
TEST(SizeClassesTest, ObjectIndexesAreExactAtEveryOffset) {
  for (size_t c = 1; c < kNumSizeClasses; ++c) {
    const SizeClass size_class = static_cast<SizeClass>(c);
    const size_t size = kSizeClasses.size(size_class);
    const size_t span = (kSizeClasses.span_pages(size_class).bytes() + kLargestHardwarePage - 1) &
                        ~(kLargestHardwarePage - 1);
    ASSERT_LE(span, kMaxSmallSpanBytes);
    size_t index = 0;
    size_t within = 0;
    for (size_t offset = 0; offset < kMaxSmallSpanBytes; ++offset) {
      const size_t start = within == 0 ? index : SizeClasses::kNoObjectStart;
      if (kSizeClasses.ObjectIndex(size_class, offset) != index ||
          kSizeClasses.ObjectStartIndex(size_class, offset) != start) {
        FAIL() << "class of " << size << " bytes, offset " << offset << ": "
               << kSizeClasses.ObjectIndex(size_class, offset) << " and "
               << kSizeClasses.ObjectStartIndex(size_class, offset);
      }
      if (++within == size) {
        within = 0;
        ++index;
      }
    }
  }
}

// The numbers are those of base/size_classes.h.
TEST(SizeClassesTest, SpansAndBatchesAreLongEnoughAndNoLonger) {
  for (size_t c = 1; c < kNumSizeClasses; ++c) {
    const SizeClass size_class = static_cast<SizeClass>(c);
    const size_t size = kSizeClasses.size(size_class);
    SCOPED_TRACE(size);
    size_t line_objects = 1;
    while (line_objects * size % kCacheLineSize != 0) ++line_objects;
    EXPECT_EQ(kSizeClasses.line_objects(size_class), line_objects);
    const size_t span = kSizeClasses.span_pages(size_class).bytes();
    EXPECT_GE(span / size, size <= 1024 ? 128u : size <= 8192 ? 8u : 1u);
    EXPECT_LE((span % size) * 32, span);
    const size_t batch = kSizeClasses.batch_size(size_class);
    const size_t fit = (size_t{64} << 10) / size;
    EXPECT_EQ(batch, std::clamp(fit, kMinBatchSize, kMaxBatchSize));
  }
}

}  // namespace
}  // namespace tcmalloc
