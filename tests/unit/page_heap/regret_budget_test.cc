// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/regret_budget.h"

#include <gtest/gtest.h>

#include "base/tuning.h"

namespace tcmalloc {
namespace {

constexpr Length kPerSecond = Length::ForBytes(kTuning.release.regret_bytes_per_second);
constexpr Length kAtRisk = Length::ForBytes(kTuning.release.most_at_risk);
constexpr Length Part(Length n, size_t parts) { return Length(n.pages() / parts); }

class RegretBudgetTest : public testing::Test {
 protected:
  RegretBudgetTest() { At(0); }
  // What is left at this time.
  Length At(int64_t now_ms, double factor = 1) {
    budget_.Advance(now_ms, factor);
    return budget_.left();
  }

  RegretBudget budget_;
};

TEST_F(RegretBudgetTest, TimeEarns) {
  EXPECT_EQ(budget_.left(), Length(0));
  EXPECT_EQ(At(500), Part(kPerSecond, 2));
  EXPECT_EQ(At(1000), kPerSecond);
  EXPECT_EQ(At(1000'000), kAtRisk);
  EXPECT_EQ(At(2000'000, 3), kAtRisk + kAtRisk + kAtRisk);
  EXPECT_EQ(At(2000'001, 1), kAtRisk);
}

TEST_F(RegretBudgetTest, TheFirstTimeEarnsNothing) {
  budget_ = RegretBudget();
  EXPECT_EQ(At(1000'000), Length(0));
}

// Threads read the clock before they take the lock.
TEST_F(RegretBudgetTest, AnEarlierTimeChangesNothing) {
  At(1000);
  EXPECT_EQ(At(900), kPerSecond);
  EXPECT_EQ(At(1000), kPerSecond);
}

TEST_F(RegretBudgetTest, AReleaseThatWasNotNeededIsPaidBack) {
  At(100'000);
  budget_.Spend(kAtRisk);
  EXPECT_EQ(At(100'999), Length(0));  // what is at risk has a bound
  EXPECT_EQ(At(101'000), Length(0));
  EXPECT_EQ(At(102'000), kAtRisk);
  budget_.Spend(kAtRisk);
  EXPECT_EQ(At(104'000), kAtRisk);  // nobody looked for two windows
}

TEST_F(RegretBudgetTest, AReleaseThatWasNeededIsNot) {
  At(100'000);
  budget_.Spend(kAtRisk);
  budget_.Fault(Part(kAtRisk, 2));
  EXPECT_EQ(At(100'000), Length(0));
  EXPECT_EQ(At(101'000), kPerSecond);
  EXPECT_EQ(At(102'000), Part(kAtRisk, 2) + kPerSecond + kPerSecond);
}

// The latest releases count as needed first, and nothing counts twice.
TEST_F(RegretBudgetTest, FaultsCountAgainstReleasesThatAreAtRisk) {
  At(100'000);
  budget_.Fault(kAtRisk);
  EXPECT_EQ(budget_.left(), kAtRisk);
  budget_.Spend(Length(100));
  At(101'000);
  budget_.Spend(Length(10));
  budget_.Fault(Length(60));
  budget_.Spend(kAtRisk - Length(110));
  EXPECT_EQ(budget_.left(), Length(0));
  budget_.Fault(kAtRisk + kAtRisk);
  EXPECT_EQ(At(102'000), kPerSecond);
}

TEST_F(RegretBudgetTest, MoreMayBeSpentThanIsLeft) {
  budget_.Spend(Part(kPerSecond, 2));
  EXPECT_EQ(budget_.left(), Length(0));
  EXPECT_EQ(At(1000), Part(kPerSecond, 2));
}

}  // namespace
}  // namespace tcmalloc
