// SPDX-License-Identifier: BSD-3-Clause
#include "bench/micro/report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/bench/comparison_fixture.h"

namespace tcmalloc::bench {
namespace {

Comparison Measured() {
  Comparison comparison = MakeComparison();
  comparison.Add(MakeRound(true, {1, 10, 9}));
  comparison.Add(MakeRound(false, {8, 4, 10}));
  return comparison;
}

TEST(PrintTables, ShowTimesRatiosAndVerdict) {
  std::ostringstream out;
  PrintTables(out, Measured());
  EXPECT_NE(out.str().find("2.000 [2.000, 2.000]"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("0.800 [0.800, 0.800]"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("not slower: yes  ours / blue"), std::string::npos) << out.str();
}

TEST(PrintTables, SayWhatIsMissingAndWhatCrashed) {
  Allocator missing = MakeAllocator("gone", false);
  missing.library.clear();
  Comparison comparison({MakeAllocator("ours", true), missing, MakeAllocator("bad", false)},
                        RunOptions{.patterns = {0}, .seed = 1, .cpu = 0, .divisor = 1});
  Round round = MakeRound(false, {5, std::nullopt, std::nullopt});
  round.samples[2] = MakeFailure("crashed (Aborted)");
  comparison.Add(std::move(round));
  std::ostringstream out;
  PrintTables(out, comparison);
  EXPECT_NE(out.str().find("missing (package gone)"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("crashed (Aborted)"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("not slower: unknown"), std::string::npos) << out.str();
}

TEST(Objections, AreNoneWhenOursIsNotSlower) { EXPECT_EQ(Objections(Measured()), ""); }

TEST(Objections, NameThePatternOnWhichOursIsSlower) {
  Comparison comparison = MakeComparison();
  comparison.Add(MakeRound(true, {5, 4, 9}));
  comparison.Add(MakeRound(false, {5, 4, 9}));
  EXPECT_EQ(Objections(comparison), "check: ours is slower on pair\n");
}

TEST(Objections, NameRequiredAllocatorsThatDidNotTakePart) {
  Allocator required = MakeAllocator("required", false);
  Allocator optional = MakeAllocator("optional", false);
  required.library.clear();
  optional.library.clear();
  optional.required = false;
  Comparison comparison(
      {MakeAllocator("ours", true), required, optional, MakeAllocator("peer", false)},
      RunOptions{.patterns = {0}, .seed = 1, .cpu = 0, .divisor = 1});
  comparison.Add(MakeRound(true, {1, std::nullopt, std::nullopt, 2}));
  comparison.Add(MakeRound(false, {1, std::nullopt, std::nullopt, 2}));
  EXPECT_EQ(Objections(comparison), "check: required missing (package required)\n");
}

TEST(WriteJson, HoldsEachSliceOfEachRound) {
  std::ostringstream out;
  WriteJson(out, Measured(), {{"kernel", "a \"quoted\"\nname"}}, {"bench_micro", "--json", "x"});
  for (const char* part :
       {R"("kernel": "a \"quoted\"\u000aname")", R"("command": ["bench_micro", "--json", "x"])",
        R"({"pilot": true, "in_order": [)",
        R"({"allocator": "ours", "pair": [13.0000, 7.5000, 8.0000]})",
        R"("fastest_peer": "blue", "median_ratio": 0.80000)"}) {
    EXPECT_NE(out.str().find(part), std::string::npos) << part << " in\n" << out.str();
  }
}

}  // namespace
}  // namespace tcmalloc::bench
