// SPDX-License-Identifier: BSD-3-Clause
#include "page/release_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "base/tuning.h"

namespace tcmalloc {
namespace {

constexpr Length kMib(128);
constexpr Length kAll(SIZE_MAX >> kPageShift);
constexpr Length kSlack(64);
// The pages that may be released in one second at rate 1.
constexpr Length kPerSecond(kTuning.release.bytes_per_second >> kPageShift);

class ReleasePolicyTest : public testing::Test {
 protected:
  // Acts as a program that had `peak` MiB in use at time 0 and needs `in_use` MiB from then on.
  void Fall(size_t peak, size_t in_use) {
    policy_.Demand(Mib(peak));
    in_use_ = Mib(in_use);
    free_backed_ = Mib(peak - in_use);
    EXPECT_TRUE(Decide(0) == Length(0) || prompt_most_ < kAll);
  }
  Length Decide(int64_t now_ms, Length most = kAll) {
    const ReleasePolicy::State state = {.in_use = in_use_,
                                        .free_backed = free_backed_,
                                        .slack = kSlack,
                                        .prompt = prompt_,
                                        .prompt_most = prompt_most_};
    const Length n = policy_.Decide(now_ms, state, most).length;
    free_backed_ -= n;
    return n;
  }
  static Length Mib(size_t n) { return Length(n * kMib.pages()); }

  // Frees `n` MiB, or takes them again: first free backed memory, then unbacked memory.
  void Free(size_t n) {
    in_use_ -= Mib(n);
    free_backed_ += Mib(n);
  }
  void Take(size_t n, int64_t now_ms) {
    in_use_ += Mib(n);
    free_backed_ -= std::min(free_backed_, Mib(n));
    policy_.Demand(in_use_, Length(0), now_ms);
  }
  Length Backed() const { return in_use_ + free_backed_; }

  ReleasePolicy policy_;
  bool prompt_ = false;
  Length prompt_most_ = kAll;
  Length in_use_;
  Length free_backed_;
};

TEST_F(ReleasePolicyTest, WhatTheRecentPeakNeededIsKeptUntilItIsForgotten) {
  Fall(100, 10);
  Length went;
  for (int64_t now = 10; now <= kTuning.release.memory_ms + 500; now += 10) {
    went += Decide(now);
    ASSERT_TRUE(went == Length(0) || now >= kTuning.release.memory_ms - 500) << now;
  }
  EXPECT_EQ(went, Mib(90));
  EXPECT_EQ(Decide(20'000), Length(0));
}

TEST_F(ReleasePolicyTest, WhatGrewBetweenTwoLooksCountsAsRecent) {
  Decide(0);
  in_use_ = Mib(10);
  free_backed_ = Mib(90);
  // At some time in the next minute all memory was in use.
  policy_.Demand(Mib(100));
  EXPECT_EQ(Decide(60'000), Length(0));
  EXPECT_EQ(Decide(60'000 + kTuning.release.memory_ms / 2), Length(0));
  EXPECT_EQ(Decide(61'000 + kTuning.release.memory_ms), Mib(90));
}

TEST_F(ReleasePolicyTest, NoFasterThanTheRate) {
  for (const double rate : {0.25, 1.0, 3.0}) {
    policy_ = ReleasePolicy();
    policy_.SetRate(rate);
    Fall(8192, 10);
    // Even if no decision was made for a long time, it releases no more than the pages of one
    // second.
    const auto second = Length(static_cast<size_t>(rate * static_cast<double>(kPerSecond.pages())));
    EXPECT_EQ(Decide(20'000), second) << rate;
    Length went;
    for (int64_t now = 20'001; now <= 21'000; ++now) went += Decide(now);
    EXPECT_LE(went, second) << rate;
    EXPECT_GE(went.pages() + 1, second.pages()) << rate;
  }
}

TEST_F(ReleasePolicyTest, WhatWasAllowedAndNotDecidedIsNotLost) {
  Fall(4096, 10);
  EXPECT_EQ(Decide(20'000, Mib(8)), Mib(8));
  EXPECT_EQ(Decide(20'000, Mib(8)), Mib(8));
  EXPECT_EQ(Decide(20'000), kPerSecond - Mib(16));
  EXPECT_EQ(Decide(20'000), Length(0));
}

// Times may come in the wrong order, because threads read the clock before they take the lock.
TEST_F(ReleasePolicyTest, TimesThatComeInTheWrongOrderDoNotUndoTheRate) {
  Fall(8192, 10);
  Length went = Decide(20'000);
  EXPECT_EQ(went, kPerSecond);
  EXPECT_EQ(Decide(19'996), Length(0));
  for (int i = 0; i < 10; ++i) went += Decide(20'000);
  EXPECT_EQ(went, kPerSecond);
}

TEST_F(ReleasePolicyTest, HighRatesForgetSooner) {
  policy_.SetRate(10);
  Fall(100, 10);
  EXPECT_EQ(Decide(kTuning.release.memory_ms / 10 + 100), Mib(90));
}

TEST_F(ReleasePolicyTest, RateZeroNeverReleases) {
  policy_.SetRate(0);
  Fall(100, 10);
  EXPECT_EQ(policy_.PagesFreed(kAll), Length(0));
  EXPECT_EQ(Decide(1'000'000), Length(0));
  policy_.SetRate(1);
  EXPECT_EQ(Decide(1'001'000), Mib(90));
}

TEST_F(ReleasePolicyTest, ALittleIsKeptForEver) {
  Decide(0);
  free_backed_ = kSlack;
  EXPECT_EQ(Decide(1'000'000), Length(0));
  free_backed_ += Length(1);
  EXPECT_EQ(Decide(1'000'001), kSlack + Length(1));
}

TEST_F(ReleasePolicyTest, BreaksHugepagesOnlyForMuch) {
  Decide(0);
  const auto may_split = [this](size_t in_use, size_t free_backed) {
    const ReleasePolicy::State state = {.in_use = Mib(in_use),
                                        .free_backed = Mib(free_backed),
                                        .slack = kSlack,
                                        .prompt = false,
                                        .prompt_most = kAll};
    return policy_.Decide(1'000'000'000, state, kAll).may_split;
  };
  policy_.Decide(999'000'000, {}, kAll);
  EXPECT_FALSE(may_split(800, 49));
  policy_ = ReleasePolicy();
  EXPECT_TRUE(may_split(800, 51));
}

// While the memory in use drops, the heap keeps all memory down to half of the peak, then the
// memory in use and a little more.
TEST_F(ReleasePolicyTest, APromptHeapFollowsADrop) {
  prompt_ = true;
  Take(300, 1);
  for (size_t live = 299; live >= 50; --live) {
    Free(1);
    Decide(2);
    ASSERT_LE(Backed(), live >= 150 ? Mib(300) : in_use_ + policy_.PromptlyKept(in_use_) + kSlack)
        << live;
    if (live >= 150) {
      ASSERT_EQ(Backed(), Mib(300)) << live;
    }
  }
  EXPECT_LE(Backed(), Mib(50 * 2 + 8));
  // In this time no peak is forgotten, so without prompt release nothing is released.
  prompt_ = false;
  EXPECT_EQ(Decide(3), Length(0));
}

TEST_F(ReleasePolicyTest, APromptHeapKeepsWhatFluctuates) {
  prompt_ = true;
  Take(100, 1);
  for (int64_t now = 2; now < kTuning.release.memory_ms * 3; now += 10) {
    Free(45);
    ASSERT_EQ(Decide(now), Length(0)) << now;
    Take(45, now);
  }
  // Free memory that was too short for a request does not make the memory in use count as a drop.
  Free(45);
  policy_.Demand(in_use_, Mib(200));
  EXPECT_EQ(Decide(kTuning.release.memory_ms * 3), Length(0));
}

// If released memory is needed again, releasing it was useless. This happens only once in
// prompt_pause_ms.
TEST_F(ReleasePolicyTest, APromptHeapLearnsThatPhasesFollowEachOther) {
  prompt_ = true;
  int releases = 0;
  int64_t now = 1;
  Take(150, now);
  for (; now < 2 * kTuning.release.prompt_pause_ms; now += 1000) {
    Free(140);
    releases += Decide(now) > Length(0);
    Take(140, now + 500);
  }
  EXPECT_EQ(releases, 2);
  // If the program does not use the memory for long enough, the rule for forgotten peaks releases
  // it.
  Free(140);
  EXPECT_EQ(Decide(now), Length(0));
  EXPECT_GT(Decide(now + kTuning.release.memory_ms + 1000), Length(0));
}

// Growth long after a release does not show that it was too early.
TEST_F(ReleasePolicyTest, APromptHeapIsNotTaughtByLaterGrowth) {
  prompt_ = true;
  for (int64_t now = 1'000'000; now < 1'100'000; now += kTuning.release.memory_ms + 1000) {
    Take(150, now);
    Decide(now);
    Free(140);
    ASSERT_GT(Decide(now), Length(0)) << now;
    Free(10);
  }
}

// Asks for a decision once in a mebibyte of freed pages.
TEST_F(ReleasePolicyTest, TellsWhatWasFreedSinceTheLastTime) {
  EXPECT_EQ(policy_.PagesFreed(kTuning.release.look_every - Length(1)), Length(0));
  EXPECT_EQ(policy_.PagesFreed(Mib(3)), Mib(3) + kTuning.release.look_every - Length(1));
  EXPECT_EQ(policy_.PagesFreed(Length(1)), Length(0));
}

// Even memory that the program needed a moment ago is released, since there may be no later
// decision.
TEST_F(ReleasePolicyTest, APromptHeapNeverKeepsMoreThanItsPart) {
  prompt_ = true;
  prompt_most_ = Mib(30);
  Fall(100, 60);  // no drop: more than half is in use
  EXPECT_EQ(free_backed_, Mib(30));
  prompt_ = false;
  EXPECT_EQ(Decide(20), Length(0));
}

TEST_F(ReleasePolicyTest, RatesAboveOneDivideWhatIsKept) {
  const Length kept = policy_.PromptlyKept(Mib(100));
  policy_.SetRate(10);
  EXPECT_EQ(policy_.PromptlyKept(Mib(100)).pages(), kept.pages() / 10);
  // A decision is due after fewer freed pages.
  EXPECT_GT(policy_.PagesFreed(Length(kTuning.release.look_every.pages() / 10)), Length(0));
  policy_.SetRate(0.5);
  EXPECT_EQ(policy_.PromptlyKept(Mib(100)), kept);
}

}  // namespace
}  // namespace tcmalloc
