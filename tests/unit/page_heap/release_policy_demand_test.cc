// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "page_heap/release_policy.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr int64_t kWindowMs = 100;
constexpr int64_t kMemoryMs = kWindowMs * int64_t{kDemandWindows};

// Compares with a list of all calls: the peak is never less than that of the last kDemandWindows -
// 1 windows, and never more than that of the last kDemandWindows. A recorded value counts until the
// next Advance.
TEST(DemandHistoryTest, AgreesWithAList) {
  constexpr uint64_t kSeed = 20261121;
  SeededRandom random(kSeed);
  DemandHistory history;
  std::vector<std::pair<int64_t, Length>> happened;
  std::vector<Length> since;
  int64_t now = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random.OneIn(2)) {
      since.emplace_back(random.Below(1000));
      history.Record(since.back());
    } else {
      now += static_cast<int64_t>(random.Below(random.OneIn(50) ? 3000 : 40));
      const Length in_use(random.Below(1000));
      history.Advance(now, kWindowMs, in_use);
      for (const Length n : since) happened.emplace_back(now, n);
      happened.emplace_back(now, in_use);
      since.assign({in_use});
    }
    Length least;
    Length most;
    for (const auto& [when, n] : happened) {
      if (when > now - kMemoryMs + kWindowMs) least = std::max(least, n);
      if (when > now - kMemoryMs) most = std::max(most, n);
    }
    for (const Length n : since) least = std::max(least, n);
    most = std::max(most, least);
    ASSERT_GE(history.Peak(), least) << step;
    ASSERT_LE(history.Peak(), most) << step;
  }
}

// Of free memory in pieces that were too short, as much counts as the fresh pages of all windows.
TEST(DemandHistoryTest, UnfitMemoryCountsUpToWhatItCost) {
  DemandHistory history;
  history.Record(Length(100), Length(1000), Length(10));
  EXPECT_EQ(history.Peak(), Length(110));
  history.Record(Length(100), Length(1000), Length(20));
  EXPECT_EQ(history.Peak(), Length(130));
  history.Record(Length(150), Length(5), Length(1));
  EXPECT_EQ(history.Peak(), Length(155));
  // They are remembered in the next window, and as long as a peak.
  history.Advance(kWindowMs, kWindowMs, Length(100));
  history.Record(Length(150), Length(1000), Length(1));
  EXPECT_EQ(history.Peak(), Length(182));
  history.Advance(2 * kWindowMs, kWindowMs, Length(100));
  history.Advance(kMemoryMs + kWindowMs, kWindowMs, Length(100));
  EXPECT_EQ(history.Peak(), Length(182));
  history.Advance(kMemoryMs + 2 * kWindowMs, kWindowMs, Length(100));
  history.Record(Length(100), Length(1000));
  EXPECT_EQ(history.Peak(), Length(100));
}

}  // namespace
}  // namespace tcmalloc
