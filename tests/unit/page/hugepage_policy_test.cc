// SPDX-License-Identifier: BSD-3-Clause
#include "page/hugepage_policy.h"

#include <gtest/gtest.h>

#include <bit>

#include "page/hugepage.h"

namespace tcmalloc::hugepage_policy {
namespace {

TEST(HugepagePolicyTest, StepsArePowersOfTwoAndAtMostASixtyFourthOfTheHeap) {
  Length last;
  for (size_t pages = 0; pages < size_t{1} << 20; pages += 7) {
    const Length step = PrefaultStep(Length(pages));
    ASSERT_GE(step, last) << "a larger heap takes no smaller steps";
    last = step;
    if (step == Length(0)) {
      ASSERT_LT(pages, 64 * kTuning.hugepages.min_prefault.pages());
      continue;
    }
    ASSERT_TRUE(std::has_single_bit(step.pages()));
    ASSERT_LE(step.pages() * 64, pages);
    ASSERT_TRUE(step == kTuning.hugepages.max_prefault || step.pages() * 128 > pages)
        << "larger would do";
  }
  EXPECT_EQ(last, kTuning.hugepages.max_prefault);
}

TEST(HugepagePolicyTest, ClassesWithManySpansNeedTheNextOneWhole) {
  EXPECT_EQ(NeedOf(0), Need::kUnknown);
  EXPECT_EQ(NeedOf(7), Need::kUnknown);
  EXPECT_EQ(NeedOf(8), Need::kWhole);
  EXPECT_EQ(NeedOf(100'000), Need::kWhole);
}

TEST(HugepagePolicyTest, NoHugepagesWhereThereAreNone) {
  const Length huge(size_t{1} << 30);
  EXPECT_FALSE(GrowInHugepages(HugepageMode::kNever, huge, huge, kTuning.hugepages.threshold));
  EXPECT_FALSE(OptOut(HugepageMode::kNever, false));
}

TEST(HugepagePolicyTest, TheFirstMegabytesUseNoHugepagesEvenWhereTheOsMakesThemUnasked) {
  for (const HugepageMode mode : {HugepageMode::kAdvise, HugepageMode::kAlways}) {
    EXPECT_FALSE(GrowInHugepages(mode, kTuning.hugepages.threshold - Length(1), Length(1),
                                 kTuning.hugepages.threshold));
    EXPECT_TRUE(
        GrowInHugepages(mode, kTuning.hugepages.threshold, Length(1), kTuning.hugepages.threshold));
  }
  EXPECT_TRUE(OptOut(HugepageMode::kAlways, false));
  EXPECT_FALSE(OptOut(HugepageMode::kAlways, true));
  EXPECT_FALSE(OptOut(HugepageMode::kAdvise, false)) << "nobody asked for any";
}

// An object of half a hugepage or more wastes little of it.
TEST(HugepagePolicyTest, HugeObjectsUseHugepagesFromAQuarterOfTheThreshold) {
  const Length quarter(kTuning.hugepages.threshold.pages() / 4);
  for (const HugepageMode mode : {HugepageMode::kAdvise, HugepageMode::kAlways}) {
    EXPECT_FALSE(GrowInHugepages(mode, quarter - Length(1), kTuning.hugepages.huge_object,
                                 kTuning.hugepages.threshold));
    EXPECT_TRUE(
        GrowInHugepages(mode, quarter, kTuning.hugepages.huge_object, kTuning.hugepages.threshold));
    EXPECT_FALSE(GrowInHugepages(mode, quarter, kTuning.hugepages.huge_object - Length(1),
                                 kTuning.hugepages.threshold));
  }
  EXPECT_EQ(kTuning.hugepages.huge_object.bytes() * 2, kHugepageSize);
}

TEST(HugepageTest, StartAndEndAreMultiplesOfItsSize) {
  const PageId page(7 * kHugepagePages.pages() + 3);
  EXPECT_EQ(HugepageStart(page), PageId(7 * kHugepagePages.pages()));
  EXPECT_EQ(HugepageEnd(page), PageId(8 * kHugepagePages.pages()));
  EXPECT_EQ(HugepageStart(HugepageEnd(page)), HugepageEnd(page));
}

}  // namespace
}  // namespace tcmalloc::hugepage_policy
