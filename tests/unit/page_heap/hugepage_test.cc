// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/hugepage.h"

#include <gtest/gtest.h>

namespace tcmalloc::hugepage_policy {
namespace {

TEST(HugepagePolicyTest, TheFirstMegabytesUseNoHugepagesEvenWhereTheOsMakesThemUnasked) {
  for (const HugepageMode mode : {HugepageMode::kAdvise, HugepageMode::kAlways}) {
    EXPECT_FALSE(
        GrowInHugepages(mode, kHugepageThreshold - Length(1), Length(1), kHugepageThreshold));
    EXPECT_TRUE(GrowInHugepages(mode, kHugepageThreshold, Length(1), kHugepageThreshold));
  }
  EXPECT_TRUE(OptOut(HugepageMode::kAlways, false));
  EXPECT_FALSE(OptOut(HugepageMode::kAlways, true));
  EXPECT_FALSE(OptOut(HugepageMode::kAdvise, false)) << "nobody asked for any";
}

// An object of half a hugepage or more wastes little of its hugepages.
TEST(HugepagePolicyTest, HugeObjectsUseHugepagesFromAQuarterOfTheThreshold) {
  const Length quarter(kHugepageThreshold.pages() / 4);
  for (const HugepageMode mode : {HugepageMode::kAdvise, HugepageMode::kAlways}) {
    EXPECT_FALSE(GrowInHugepages(mode, quarter - Length(1), kHugeObject, kHugepageThreshold));
    EXPECT_TRUE(GrowInHugepages(mode, quarter, kHugeObject, kHugepageThreshold));
    EXPECT_FALSE(GrowInHugepages(mode, quarter, kHugeObject - Length(1), kHugepageThreshold));
  }
  EXPECT_EQ(kHugeObject.bytes() * 2, kHugepageSize);
}

TEST(HugepageTest, StartAndEndAreMultiplesOfItsSize) {
  const PageId page(7 * kHugepagePages.pages() + 3);
  EXPECT_EQ(HugepageStart(page), PageId(7 * kHugepagePages.pages()));
  EXPECT_EQ(HugepageEnd(page), PageId(8 * kHugepagePages.pages()));
  EXPECT_EQ(HugepageStart(HugepageEnd(page)), HugepageEnd(page));
}

}  // namespace

}  // namespace tcmalloc::hugepage_policy
