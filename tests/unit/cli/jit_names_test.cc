// SPDX-License-Identifier: BSD-3-Clause
// Maps of compiled functions: valid ones, as programs write them, and invalid ones. The names in
// reports and snapshots: tests/command/jit_test.py.
#include "image/jit_names.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "image/process_image.h"
#include "image/symbolizer.h"

namespace cli {
namespace {

// "START-END NAME" for each function.
std::vector<std::string> Parsed(std::string_view map) {
  std::vector<std::string> lines;
  for (const JitFunction& function : ParsePerfMap(map)) {
    lines.push_back(fmt::format("{:x}-{:x} {}", function.start, function.end, function.name));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(PerfMapTest, LinesOfSeveralPrograms) {
  EXPECT_EQ(Parsed("7fea82b92653 40 LazyCompile:~work /srv/a b.js:7\n"
                   "0x00007fea82b90000 0x00000020 void Off.viaOrders(int)\n"
                   "00007FEA82B91000 1A void [Shop] Shop.Order::Place()[Tier0]\r\n"
                   "7fea82b93000 1 last"),
            (Lines{"7fea82b90000-7fea82b90020 void Off.viaOrders(int)",
                   "7fea82b91000-7fea82b9101a void [Shop] Shop.Order::Place()[Tier0]",
                   "7fea82b92653-7fea82b92693 LazyCompile:~work /srv/a b.js:7",
                   "7fea82b93000-7fea82b93001 last"}));
}

TEST(PerfMapTest, WhatIsNoFunctionIsSkipped) {
  EXPECT_EQ(Parsed(""), Lines());
  EXPECT_EQ(
      Parsed("\n\n \n1\n1 \n1 2\n1 2 \n0x 2 a\nx 2 a\n1 x a\n-1 2 a\n1 -2 a\n1\t2\ta\n 1 2 a\n"
             "1 0 of no bytes\n10000000000000000 1 a\n1 10000000000000000 a\n"
             "fffffffffffffff0 10 over the end\n"),
      Lines());
  EXPECT_EQ(Parsed("fffffffffffffff0 f a\n"), (Lines{"fffffffffffffff0-ffffffffffffffff a"}));
  EXPECT_EQ(Parsed(std::string_view("1 1 a\0b\n2 1 \0\0\0\n", 16)).size(), 2u);
  EXPECT_EQ(ParsePerfMap("1 1 " + std::string(100'000, 'a')).at(0).name.size(), 1000u);
}

TEST(PerfMapTest, RandomFunctionsLikeBytesThatAreOverwritten) {
  constexpr uint32_t kSeed = 7;
  printf("seed %u\n", kSeed);
  std::mt19937 random(kSeed);
  for (int run = 0; run < 200; ++run) {
    std::array<std::string, 128> bytes;
    std::string map;
    for (int i = 0; i < 30; ++i) {
      const size_t start = random() % 100;
      const size_t size = 1 + random() % 28;
      map += fmt::format("{:x} {:x} f{}\n", start, size, i);
      for (size_t at = start; at < start + size; ++at) bytes[at] = fmt::format("f{}", i);
    }
    std::array<std::string, 128> found;
    Address end = 0;
    for (const JitFunction& function : ParsePerfMap(map)) {
      ASSERT_GE(function.start, end);
      ASSERT_GT(function.end, function.start);
      end = function.end;
      for (Address at = function.start; at < function.end; ++at) found.at(at) = function.name;
    }
    ASSERT_EQ(found, bytes) << map;
  }
}

TEST(PerfMapTest, WhoseMapIsTrusted) {
  constexpr int64_t kSecond = 1'000'000'000;
  const User user{.user = 1000, .group = 1000};
  EXPECT_EQ(WhyNotTrusted(1000, 10 * kSecond, user, 10 * kSecond), "");
  EXPECT_EQ(WhyNotTrusted(0, 10 * kSecond, user, 10 * kSecond + 1), "");
  EXPECT_EQ(WhyNotTrusted(0, 10 * kSecond, std::nullopt, 0), "");
  EXPECT_EQ(WhyNotTrusted(1001, 10 * kSecond, user, 0),
            "belongs to user 1001, neither to the process's user nor to root");
  EXPECT_NE(WhyNotTrusted(1000, 10 * kSecond, std::nullopt, 0), "");
  EXPECT_EQ(WhyNotTrusted(1000, 10 * kSecond, user, 12 * kSecond),
            "was written before the process started, by another process with its number");
}

// The map of this process, at the name that each program gives it.
class OwnPerfMap : public testing::Test {
 protected:
  ~OwnPerfMap() override { std::filesystem::remove(path_); }

  void Append(const std::string& text) const { std::ofstream(path_, std::ios::app) << text; }

  const std::string path_ = fmt::format("/tmp/perf-{}.map", getpid());
  LiveImage image_{getpid()};
  Symbolizer symbolizer_{FileSearch(getpid()), image_};
};

TEST_F(OwnPerfMap, IsReadAgainWhenItHasChanged) {
  symbolizer_.UpdateJitNames();
  EXPECT_EQ(symbolizer_.FramesAt(0x1000).back().function, "0x1000");
  Append("1000 10 first\n");
  EXPECT_EQ(symbolizer_.FramesAt(0x1000).back().function, "0x1000");
  symbolizer_.UpdateJitNames();
  EXPECT_EQ(symbolizer_.FramesAt(0x1000).back().function, "first");
  Append("1000 10 second\n");
  symbolizer_.UpdateJitNames();
  EXPECT_EQ(symbolizer_.FramesAt(0x1000).back().function, "second");
}

TEST_F(OwnPerfMap, OfAnEarlierProcess) {
  Append("1000 10 earlier\n");
  const timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), long_ago, 0), 0);
  EXPECT_EQ(symbolizer_.FramesAt(0x1000).back().function, "0x1000");
  EXPECT_EQ(symbolizer_.Problems().size(), 1u);
}

TEST_F(OwnPerfMap, NamesNoFunctionOfAFile) {
  Append("1 fffffffffffffff0 everything\n");
  const auto at = reinterpret_cast<Address>(&ParsePerfMap);
  EXPECT_EQ(symbolizer_.FramesAt(at).back().function, "cli::ParsePerfMap");
  EXPECT_EQ(symbolizer_.FramesAt(0x10).back().function, "everything");
}

TEST_F(OwnPerfMap, ThatIsTooLong) {
  {
    std::ofstream file(path_);
    file << "1000 10 oldest\n2000 10 old\n";
    for (size_t i = 1; i < kMostMapLines; ++i) file << "3000 1 a\n";
  }
  EXPECT_EQ(symbolizer_.FramesAt(0x1000).back().function, "0x1000");
  EXPECT_EQ(symbolizer_.FramesAt(0x2000).back().function, "old");
  ASSERT_EQ(symbolizer_.Problems().size(), 1u);
  EXPECT_EQ(symbolizer_.Problems()[0], path_ + ": only its last 1000000 lines or 64 MiB are read");
}

TEST_F(OwnPerfMap, ThatIsMostlyAHole) {
  Append("1000 10 first\n");
  std::filesystem::resize_file(path_, uint64_t{1} << 40);
  Append("\n2000 10 last\n");
  EXPECT_EQ(symbolizer_.FramesAt(0x2000).back().function, "last");
  EXPECT_EQ(symbolizer_.FramesAt(0x1000).back().function, "0x1000");
  EXPECT_EQ(symbolizer_.Problems().size(), 1u);
}

TEST_F(OwnPerfMap, ThatIsNoFile) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(symbolizer_.FramesAt(0x1000).back().function, "0x1000");
  ASSERT_EQ(symbolizer_.Problems().size(), 1u);
  EXPECT_EQ(symbolizer_.Problems()[0], path_ + ": is not a regular file");
}

}  // namespace
}  // namespace cli
