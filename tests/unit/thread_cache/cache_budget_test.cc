// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/cache_budget.h"

#include <gtest/gtest.h>

#include <vector>

#include "page_heap/retention.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kBudgetSeed = 3031;
constexpr size_t kInitial = kInitialCacheBytes;
constexpr size_t kStep = kCacheStepBytes;

constexpr size_t kTotal = ShareRetention({}).thread_caches;

// If a limit took a hundred collections to grow to some megabytes, they would empty bins that are
// in use.
TEST(CacheBudgetTest, StepsAreHalfTheLimitFromAStepToAMegabyte) {
  CacheBudget budget(kTotal);
  size_t limit = budget.AddCache();
  size_t raises = 0;
  while (limit < budget.total()) {
    const size_t before = limit;
    const size_t left = static_cast<size_t>(budget.unclaimed());
    ASSERT_TRUE(budget.TryRaise(&limit));
    const size_t half = before / 2 / kStep * kStep;
    ASSERT_EQ(limit - before, std::min(std::clamp(half, kStep, kMaxCacheStepBytes), left));
    ++raises;
  }
  EXPECT_EQ(raises, 39u);
}

TEST(CacheBudgetTest, ASmallerTotalLowersLimitsToAnEqualShare) {
  CacheBudget budget(kTotal);
  size_t large = budget.AddCache();
  size_t small = budget.AddCache();
  while (large < 100 * kStep) ASSERT_TRUE(budget.TryRaise(&large));
  // While the total suffices for all, no limit is lowered.
  const size_t had = large;
  budget.LowerToShare(&large);
  EXPECT_EQ(large, had);
  budget.SetTotal(20 * kStep);
  ASSERT_LT(budget.unclaimed(), 0);
  budget.LowerToShare(&small);
  EXPECT_EQ(small, kInitial);
  budget.LowerToShare(&large);
  EXPECT_EQ(large, 10 * kStep);
  EXPECT_EQ(budget.unclaimed(), static_cast<int64_t>(20 * kStep - large - small));
  // No limit is lowered below the initial one.
  budget.SetTotal(0);
  budget.LowerToShare(&large);
  EXPECT_EQ(large, kInitial);
}

// The lower bound has an effect only if an equal share is below it.
TEST(CacheBudgetTest, LowerBound) {
  CacheBudget budget(kTotal);
  budget.SetTotal(8 * kStep);
  budget.SetMinPerCache(4 * kStep);
  size_t one = budget.AddCache();
  size_t two = budget.AddCache();
  while (budget.TryRaise(&one)) {
  }
  ASSERT_EQ(one, 7 * kStep);
  // A share is 4 steps, which is not below the bound.
  EXPECT_EQ(budget.LowerBound(), kInitial);
  EXPECT_FALSE(budget.TryRaise(&two));
  size_t three = budget.AddCache();
  // A third cache makes the share smaller than the bound.
  EXPECT_EQ(budget.LowerBound(), 4 * kStep);
  while (budget.TrySteal(&two, &one)) {
  }
  EXPECT_EQ(one, 4 * kStep);
  while (budget.TryRaise(&three)) {
  }
  EXPECT_EQ(three, 4 * kStep) << "beyond the total, up to the bound";
}

TEST(CacheBudgetTest, ExcessIsWhatIsUnfilledUpToBothBounds) {
  constexpr size_t kMost = kMaxUnfilledBytes;
  EXPECT_EQ(CacheBudget::Excess(kMost, 0), 0u);
  EXPECT_EQ(CacheBudget::Excess(kMost, 1000), 1000u);
  EXPECT_EQ(CacheBudget::Excess(kMost, kMost + 1), kMost);
  EXPECT_EQ(CacheBudget::Excess(1000, kMost), 1000 * kMaxUnfilledTimes);
  EXPECT_EQ(CacheBudget::Excess(0, kMost), 0u) << "an idle cache was emptied";
}

// Compares the unclaimed bytes with the sum of all limits, in any order of events.
TEST(CacheBudgetTest, UnclaimedIsTheTotalWithoutTheLimits) {
  CacheBudget budget(kTotal);
  SeededRandom random(kBudgetSeed);
  std::vector<size_t> limits;
  for (int step = 0; step < 100000; ++step) {
    switch (random.Below(7)) {
      case 0:
        limits.push_back(budget.AddCache());
        break;
      case 1:
        if (limits.empty()) break;
        budget.RemoveCache(limits.back());
        limits.pop_back();
        break;
      case 2:
        if (!limits.empty()) budget.TakeAll(&limits[random.Below(limits.size())]);
        break;
      case 3:
        budget.SetTotal(random.Below(64) * kStep);
        break;
      case 4:
        if (limits.size() < 2) break;
        budget.TrySteal(&limits[0], &limits[random.Between(1, limits.size() - 1)]);
        break;
      default:
        if (!limits.empty()) budget.TryRaise(&limits[random.Below(limits.size())]);
    }
    int64_t sum = 0;
    for (const size_t limit : limits) sum += static_cast<int64_t>(limit);
    ASSERT_EQ(budget.unclaimed(), static_cast<int64_t>(budget.total()) - sum)
        << "step " << step << " seed " << kBudgetSeed;
  }
}

}  // namespace
}  // namespace tcmalloc
