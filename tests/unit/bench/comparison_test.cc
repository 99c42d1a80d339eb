// SPDX-License-Identifier: BSD-3-Clause
#include "bench/micro/comparison.h"

#include <gtest/gtest.h>

#include "tests/unit/bench/comparison_fixture.h"

namespace tcmalloc::bench {
namespace {

constexpr size_t kOurs = 0;
constexpr size_t kRed = 1;
constexpr size_t kBlue = 2;

TEST(PatternTimes, StandForTheirMedianSlice) {
  const PatternTimes times{.slices = {3, 2, 900}};
  EXPECT_EQ(times.nanoseconds(), 3);
  EXPECT_EQ(times.fastest(), 2);
}

TEST(Comparison, LeavesThePilotOutOfTheFigures) {
  Comparison comparison = MakeComparison();
  comparison.Add(MakeRound(true, {1, 1, 1}));
  comparison.Add(MakeRound(false, {4, 5, 6}));
  comparison.Add(MakeRound(false, {8, 9, 10}));
  EXPECT_EQ(comparison.Series(kOurs, 0), (std::vector<double>{4, 8}));
  const auto summary = comparison.Summarize(kRed, 0);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->median, 7);
  EXPECT_EQ(summary->fastest_slice, 4.5);
  EXPECT_EQ(summary->quartiles.low, 6);
  EXPECT_EQ(summary->quartiles.high, 8);
}

TEST(Comparison, TakesTheFastestPeerFromThePilot) {
  Comparison comparison = MakeComparison();
  comparison.Add(MakeRound(true, {1, 10, 9}));
  // Red is faster than blue now, but the pilot has chosen blue.
  comparison.Add(MakeRound(false, {8, 4, 10}));
  const std::vector<Verdict> verdicts = comparison.Verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].allocator, kOurs);
  EXPECT_EQ(verdicts[0].fastest_peer, kBlue);
  EXPECT_DOUBLE_EQ(verdicts[0].ratio->median, 0.8);
  EXPECT_TRUE(verdicts[0].not_slower());
}

TEST(Comparison, FindsASlowerOneSlower) {
  Comparison comparison = MakeComparison();
  comparison.Add(MakeRound(true, {5, 4, 9}));
  for (int i = 0; i < 15; ++i) comparison.Add(MakeRound(false, {4.1 + i, 4.0 + i, 9}));
  const Verdict verdict = comparison.Verdicts().at(0);
  EXPECT_EQ(verdict.fastest_peer, kRed);
  EXPECT_GT(verdict.ratio->interval.low, 1);
  EXPECT_FALSE(verdict.not_slower());
}

TEST(Comparison, DropsAPeerThatCrashes) {
  Comparison comparison = MakeComparison();
  comparison.Add(MakeRound(true, {5, 4, 9}));
  Round round = MakeRound(false, {5, std::nullopt, 10});
  round.samples[kRed] = MakeFailure("crashed (Aborted)");
  comparison.Add(std::move(round));
  comparison.Add(MakeRound(false, {5, std::nullopt, 10}));
  EXPECT_EQ(comparison.Failure(kRed), "crashed (Aborted)");
  EXPECT_TRUE(comparison.Series(kRed, 0).empty());
  EXPECT_FALSE(comparison.Summarize(kRed, 0).has_value());
  EXPECT_FALSE(comparison.Ratio(kOurs, kRed, 0).has_value());
  EXPECT_EQ(comparison.Verdicts().at(0).fastest_peer, kBlue);
}

TEST(Comparison, HasNoVerdictForOneThatCrashes) {
  Comparison comparison = MakeComparison();
  comparison.Add(MakeRound(true, {5, 4, 9}));
  Round round = MakeRound(false, {std::nullopt, 4, 10});
  round.samples[kOurs] = MakeFailure("crashed (Segmentation fault)");
  comparison.Add(std::move(round));
  const Verdict verdict = comparison.Verdicts().at(0);
  EXPECT_FALSE(verdict.ratio.has_value());
  EXPECT_FALSE(verdict.not_slower());
  EXPECT_EQ(verdict.reason, "crashed (Segmentation fault)");
}

TEST(Comparison, KnowsMissingAllocators) {
  Allocator missing = MakeAllocator("gone", false);
  missing.library.clear();
  Comparison comparison({MakeAllocator("ours", true), missing},
                        RunOptions{.patterns = {0}, .seed = 1, .cpu = 0, .divisor = 1});
  comparison.Add(MakeRound(true, {5, std::nullopt}));
  comparison.Add(MakeRound(false, {5, std::nullopt}));
  EXPECT_EQ(comparison.Failure(1), "missing");
  EXPECT_EQ(comparison.Verdicts().at(0).reason, "no peer was measured");
}

}  // namespace
}  // namespace tcmalloc::bench
