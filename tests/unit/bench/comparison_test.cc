// SPDX-License-Identifier: BSD-3-Clause
// Conclusions from hand-made measurements.
#include "bench/micro/comparison.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tcmalloc::bench {
namespace {

constexpr size_t kOurs = 0;
constexpr size_t kRed = 1;
constexpr size_t kBlue = 2;

Allocator MakeAllocator(const std::string& name, bool ours) {
  Allocator allocator;
  allocator.name = name;
  allocator.ours = ours;
  allocator.library = "/lib/" + name + ".so";
  return allocator;
}

Comparison MakeComparison() {
  return Comparison(
      {MakeAllocator("ours", true), MakeAllocator("red", false), MakeAllocator("blue", false)},
      RunOptions{.patterns = {0}, .seed = 1, .cpu = 0, .divisor = 1});
}

// The median of each allocator's three slices is the given time. Without a time it crashed.
Round MakeRound(bool pilot, const std::vector<std::optional<double>>& times) {
  Round round;
  round.pilot = pilot;
  for (const std::optional<double>& time : times) {
    round.order.push_back(round.samples.size());
    Sample& sample = round.samples.emplace_back(Sample()).value();
    if (time.has_value()) {
      sample.times = {PatternTimes{.slices = {*time + 5, *time - 0.5, *time}}};
    } else {
      sample.failure = "crashed (Aborted)";
    }
  }
  return round;
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

TEST(Comparison, OneThatCrashesHasNoFigures) {
  Comparison comparison = MakeComparison();
  comparison.Add(MakeRound(true, {5, 4, 9}));
  comparison.Add(MakeRound(false, {5, std::nullopt, 10}));
  EXPECT_TRUE(comparison.Series(kRed, 0).empty());
  EXPECT_FALSE(comparison.Ratio(kOurs, kRed, 0).has_value());
  EXPECT_EQ(comparison.Verdicts().at(0).fastest_peer, kBlue);
  comparison.Add(MakeRound(false, {std::nullopt, std::nullopt, 10}));
  EXPECT_FALSE(comparison.Verdicts().at(0).not_slower());
  EXPECT_EQ(comparison.Verdicts().at(0).reason, "crashed (Aborted)");
}

}  // namespace
}  // namespace tcmalloc::bench
