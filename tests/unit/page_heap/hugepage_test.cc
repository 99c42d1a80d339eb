// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/hugepage.h"

#include <gtest/gtest.h>

#include <vector>

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

namespace tcmalloc {
namespace {

using Need = TouchHistory::Need;

constexpr Length kSpan = Length::ForBytes(64 << 10);

TEST(TouchHistoryTest, TheFirstSpansAndOneOfEachDoublingAreTrials) {
  std::vector<size_t> trials;
  for (size_t num_spans = 0; num_spans < 130; ++num_spans) {
    if (TouchHistory::IsTrial(num_spans)) trials.push_back(num_spans);
  }
  EXPECT_EQ(trials, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7, 15, 31, 63, 127}));
}

TEST(TouchHistoryTest, SpansAreNeededWholeAfterATrialThatWasTouched) {
  for (const size_t backed :
       {size_t{0}, kSpan.bytes() / 4 * 3 - 4096, kSpan.bytes() / 4 * 3, kSpan.bytes()}) {
    TouchHistory history;
    std::vector<PageId> examined;
    const auto backed_bytes = [&](PageRange range) {
      EXPECT_EQ(range.bytes(), kSpan.bytes());
      examined.push_back(range.first);
      return backed;
    };
    EXPECT_EQ(history.NeedOf(0, kSpan, backed_bytes), Need::kUnknown);
    history.NoteTrial(PageId(100));
    EXPECT_EQ(history.NeedOf(7, kSpan, backed_bytes), Need::kUnknown);
    history.NoteTrial(PageId(200));
    EXPECT_EQ(examined, std::vector<PageId>());
    const Need need = backed >= kSpan.bytes() / 4 * 3 ? Need::kWhole : Need::kUnknown;
    EXPECT_EQ(history.NeedOf(8, kSpan, backed_bytes), need) << backed;
    EXPECT_EQ(history.NeedOf(9, kSpan, backed_bytes), need) << backed;
    EXPECT_EQ(examined, std::vector<PageId>{PageId(200)}) << "the last trial, once";
    EXPECT_EQ(history.NeedOf(15, kSpan, backed_bytes), Need::kUnknown);
    history.NoteTrial(PageId(300));
    EXPECT_EQ(history.NeedOf(20, kSpan, backed_bytes), need) << "whenever the next is needed";
    EXPECT_EQ(examined, (std::vector<PageId>{PageId(200), PageId(300)}));
  }
}

}  // namespace
}  // namespace tcmalloc
