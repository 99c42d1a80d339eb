// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/bins.h"

#include <gtest/gtest.h>

#include "testing/heap_fixture.h"

namespace tcmalloc {
namespace {

// One bin with room for `kCapacity` objects.
class BinsTest : public testing::Test {
 protected:
  static constexpr size_t kCapacity = 4;
  BinsTest() {
    array_[kCapacity + 1] = kFullMark;
    bins_.tops[Index(c_)].store(array_);
  }
  void* Object(size_t i) { return &objects_[i]; }
  size_t Count() { return static_cast<size_t>(bins_.tops[Index(c_)].load() - array_); }

  const SizeClass c_ = ClassForSize(64);
  BinSlot array_[kCapacity + 2] = {};
  Bins bins_;
  uint64_t objects_[kCapacity + 1] = {};
};

TEST_F(BinsTest, AFullBinTakesNothing) {
  for (size_t i = 0; i < kCapacity; ++i) ASSERT_TRUE(bins_.Push(c_, Object(i)));
  EXPECT_FALSE(bins_.Push(c_, Object(kCapacity)));
  EXPECT_EQ(Count(), kCapacity);
  EXPECT_EQ(array_[kCapacity + 1], kFullMark);
  EXPECT_EQ(bins_.Pop(c_), Object(kCapacity - 1));
  EXPECT_TRUE(bins_.Push(c_, Object(kCapacity)));
}

TEST_F(BinsTest, PushSeesAnImmediateSecondFree) {
  ASSERT_TRUE(bins_.Push(c_, Object(0)));
  EXPECT_FALSE(bins_.Push(c_, Object(0)));
  EXPECT_EQ(Count(), 1u);
  // The second free is also found in the last slot.
  for (size_t i = 1; i < kCapacity; ++i) ASSERT_TRUE(bins_.Push(c_, Object(i)));
  EXPECT_FALSE(bins_.Push(c_, Object(kCapacity - 1)));
  EXPECT_EQ(Count(), kCapacity);
}

// The bins of a thread without a cache: every operation leaves the fast path and writes nothing
// (the bins are in read-only memory).
TEST(EmptyBinsTest, BothEmptyAndFull) {
  Bins& bins = const_cast<Bins&>(kEmptyBins);
  uint64_t object = 0;
  for (size_t i = 0; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    EXPECT_EQ(bins.Pop(c), nullptr);
    EXPECT_FALSE(bins.Push(c, &object));
    EXPECT_EQ(bins.tops[i].load(), kNoBinArray);
  }
  EXPECT_EQ(bins.bytes_until_sample, 0u);
  EXPECT_EQ(kNoBinArray[0], 0u);
  EXPECT_EQ(kNoBinArray[1], kFullMark);
}

}  // namespace
}  // namespace tcmalloc
