// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/release_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "process/release.h"

namespace tcmalloc {
namespace {

constexpr Length kMib(128);
constexpr Length kAll(SIZE_MAX >> kPageShift);
constexpr Length kSlack(64);
constexpr Length kMostAtRisk = Length::ForBytes(kMaxBytesAtRisk);

class ReleasePolicyTest : public testing::Test {
 protected:
  // Acts as a program that had `peak` MiB in use at time 0 and needs `in_use` MiB from then on.
  void Fall(size_t peak, size_t in_use) {
    policy_.Demand(Mib(peak));
    in_use_ = Mib(in_use);
    free_backed_ = Mib(peak - in_use);
    EXPECT_EQ(Decide(0), Length(0));
  }
  Length Decide(int64_t now_ms, Length most = kAll) {
    const ReleasePolicy::State state = {
        .in_use = in_use_, .free_backed = free_backed_, .slack = kSlack};
    const Length n = policy_.Decide(now_ms, state, most).length;
    free_backed_ -= n;
    return n;
  }
  static Length Mib(size_t n) { return Length(n * kMib.pages()); }

  ReleasePolicy policy_;
  Length in_use_;
  Length free_backed_;
};

TEST_F(ReleasePolicyTest, WhatTheRecentPeakNeededIsKeptUntilItIsForgotten) {
  Fall(100, 10);
  Length went;
  for (int64_t now = 10; now <= kReleaseMemoryMs + 500; now += 10) {
    went += Decide(now);
    ASSERT_TRUE(went == Length(0) || now >= kReleaseMemoryMs - 500) << now;
  }
  EXPECT_EQ(went, Mib(90));
  EXPECT_EQ(Decide(20'000), Length(0));
}

// The budget is that of RegretBudget, times the rate.
TEST_F(ReleasePolicyTest, NoFasterThanTheRate) {
  for (const double rate : {0.25, 1.0, 3.0}) {
    policy_ = ReleasePolicy();
    policy_.SetRate(rate);
    Fall(8192, 10);
    const auto at_risk =
        Length(static_cast<size_t>(rate * static_cast<double>(kMostAtRisk.pages())));
    EXPECT_EQ(Decide(40'000 / std::min(rate, 1.0)), at_risk) << rate;
  }
}

TEST_F(ReleasePolicyTest, WhatWasAllowedAndNotDecidedIsNotLost) {
  Fall(4096, 10);
  EXPECT_EQ(Decide(30'000, Mib(8)), Mib(8));
  EXPECT_EQ(Decide(30'000, Mib(8)), Mib(8));
  EXPECT_EQ(Decide(30'000), kMostAtRisk - Mib(16));
  EXPECT_EQ(Decide(30'000), Length(0));
}

TEST_F(ReleasePolicyTest, HighRatesForgetSooner) {
  policy_.SetRate(10);
  Fall(100, 10);
  EXPECT_EQ(Decide(kReleaseMemoryMs / 10 + 100), Mib(90));
}

TEST_F(ReleasePolicyTest, RateZeroNeverReleases) {
  policy_.SetRate(0);
  Fall(100, 10);
  EXPECT_EQ(policy_.PagesFreed(kAll), Length(0));
  EXPECT_EQ(Decide(1'000'000), Length(0));
  policy_.SetRate(1);
  EXPECT_EQ(Decide(1'010'000), Mib(90));
}

TEST_F(ReleasePolicyTest, ALittleIsKeptForEver) {
  Decide(0);
  free_backed_ = kSlack;
  EXPECT_EQ(Decide(1'000'000), Length(0));
  free_backed_ += Length(1);
  EXPECT_EQ(Decide(1'000'001), kSlack + Length(1));
}

// Asks for a decision once in a mebibyte of freed pages.
TEST_F(ReleasePolicyTest, TellsWhatWasFreedSinceTheLastTime) {
  EXPECT_EQ(policy_.PagesFreed(kLookEvery - Length(1)), Length(0));
  EXPECT_EQ(policy_.PagesFreed(Mib(3)), Mib(3) + kLookEvery - Length(1));
  EXPECT_EQ(policy_.PagesFreed(Length(1)), Length(0));
}

TEST_F(ReleasePolicyTest, RatesAboveOneDecideMoreOften) {
  policy_.SetRate(10);
  EXPECT_GT(policy_.PagesFreed(Length(kLookEvery.pages() / 10)), Length(0));
}

// A program whose memory in use goes up and down, in a heap that decides while it frees and in
// passes once a second. Times in milliseconds.
class Sawtooth {
 public:
  Sawtooth(int64_t period_ms, Length high) : period_ms_(period_ms), high_(high) {}

  // Returns the time that page faults took on memory that was released less than regret_ms before.
  double RunUntil(int64_t end_ms) {
    for (; now_ms_ < end_ms; now_ms_ += std::max<int64_t>(period_ms_ / 2, 1)) {
      PassesUntil(now_ms_);
      Take(high_ - in_use_);
      const int64_t peak_ms = now_ms_ + period_ms_ / 4;
      PassesUntil(peak_ms);
      Free(high_ - Length(high_.pages() / 8), peak_ms);
    }
    return static_cast<double>(regretted_.bytes()) / 4096 * kFaultMs;
  }
  // The memory that is backed after `silence_ms` in which the program does nothing.
  Length AfterSilence(int64_t silence_ms) {
    PassesUntil(now_ms_ + silence_ms);
    return in_use_ + free_backed_;
  }
  Length in_use() const { return in_use_; }

 private:
  static constexpr double kFaultMs = 0.0014;
  struct Release {
    int64_t at_ms;
    Length pages;
  };

  void PassesUntil(int64_t now_ms) {
    for (; pass_ms_ <= now_ms; pass_ms_ += kIdlePassMs) {
      while (Decide(pass_ms_) > Length(0)) {
      }
    }
  }
  Length Decide(int64_t now_ms) {
    const Length n = policy_.Decide(now_ms, {in_use_, free_backed_, kSlack}, Length(1024)).length;
    free_backed_ -= n;
    if (n > Length(0)) released_.push_back({now_ms, n});
    return n;
  }
  void Take(Length n) {
    Length fresh = n - std::min(n, free_backed_);
    in_use_ += n;
    free_backed_ -= n - fresh;
    policy_.Demand(in_use_, Length(0), fresh, now_ms_);
    while (fresh > Length(0) && !released_.empty()) {
      Release& latest = released_.back();
      const Length again = std::min(fresh, latest.pages);
      if (now_ms_ - latest.at_ms < kRegretMs) regretted_ += again;
      fresh -= again;
      latest.pages -= again;
      if (latest.pages == Length(0)) released_.pop_back();
    }
  }
  void Free(Length n, int64_t now_ms) {
    const Length most(n.pages() / 8 + 1);
    for (Length part; n > Length(0); n -= part) {
      part = std::min(n, most);
      in_use_ -= part;
      free_backed_ += part;
      if (policy_.PagesFreed(part) > Length(0)) Decide(now_ms);
    }
  }

  const int64_t period_ms_;
  const Length high_;
  ReleasePolicy policy_;
  int64_t now_ms_ = 1;
  int64_t pass_ms_ = 1;
  Length in_use_;
  Length free_backed_;
  std::vector<Release> released_;
  Length regretted_;
};

TEST_F(ReleasePolicyTest, WhatIsNeededAgainAtOnceTakesAFiftiethOfTheTime) {
  for (const int64_t period_ms : {1, 10, 100, 1000, 5000, 8000, 9000, 10'000, 20'000, 30'000}) {
    for (const size_t mib : {1, 16, 128, 1024, 4096}) {
      SCOPED_TRACE(testing::Message() << period_ms << " ms, " << mib << " MiB");
      constexpr int64_t kEndMs = 100'000;
      Sawtooth program(period_ms, Mib(mib));
      EXPECT_LE(program.RunUntil(kEndMs), 0.02 * kEndMs);
      EXPECT_LE(program.AfterSilence(30'000), program.in_use() + kSlack);
    }
  }
}

constexpr Length kPerSecond = Length::ForBytes(kRegretBytesPerSecond);
constexpr Length kAtRisk = Length::ForBytes(kMaxBytesAtRisk);
constexpr Length Part(Length n, size_t parts) { return Length(n.pages() / parts); }

class RegretBudgetTest : public testing::Test {
 protected:
  RegretBudgetTest() { At(0); }
  // The rest of the budget at this time.
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
  EXPECT_EQ(At(100'999), Length(0));  // the bytes at risk are bounded
  EXPECT_EQ(At(101'000), Length(0));
  EXPECT_EQ(At(102'000), kAtRisk);
  budget_.Spend(kAtRisk);
  EXPECT_EQ(At(104'000), kAtRisk);  // the budget was not read for two windows
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
