// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/hugepage.h"

#include <gtest/gtest.h>

#include <utility>

namespace tcmalloc::hugepage_policy {
namespace {

// An object of half a hugepage or more wastes little of its hugepages.
TEST(HugepagePolicyTest, HeapsUseHugepagesFromTheThresholdAndHugeObjectsFromAQuarterOfIt) {
  constexpr Length kQuarter(kHugepageThreshold.pages() / 4);
  for (const HugepageMode mode : {HugepageMode::kAdvise, HugepageMode::kAlways}) {
    for (const auto& [object, least] : {std::pair(Length(1), kHugepageThreshold),
                                        std::pair(kHugeObject - Length(1), kHugepageThreshold),
                                        std::pair(kHugeObject, kQuarter)}) {
      EXPECT_FALSE(GrowInHugepages(mode, least - Length(1), object, kHugepageThreshold));
      EXPECT_TRUE(GrowInHugepages(mode, least, object, kHugepageThreshold));
    }
  }
  EXPECT_EQ(kHugeObject.bytes() * 2, kHugepageSize);
}

TEST(HugepagePolicyTest, OptsOutWhereTheOsMakesThemUnasked) {
  EXPECT_TRUE(OptOut(HugepageMode::kAlways, false));
  EXPECT_FALSE(OptOut(HugepageMode::kAlways, true));
  EXPECT_FALSE(OptOut(HugepageMode::kAdvise, false)) << "nobody asked for any";
}

}  // namespace
}  // namespace tcmalloc::hugepage_policy
