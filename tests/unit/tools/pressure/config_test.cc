// SPDX-License-Identifier: BSD-3-Clause
#include "tools/pressure/config.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace tcmalloc {
namespace {

using ThresholdOf = PressureThreshold::Of;

PressureConfig Parsed(std::string_view text) {
  PressureConfig config;
  std::string_view wrong;
  EXPECT_TRUE(ParsePressureConfig(text, &config, &wrong)) << text << ": " << wrong;
  return config;
}

std::string Wrong(std::string_view text) {
  PressureConfig config;
  std::string_view wrong;
  EXPECT_FALSE(ParsePressureConfig(text, &config, &wrong)) << text;
  return std::string(wrong);
}

TEST(PressureConfigTest, IsOffWithoutText) {
  for (const char* text : {"", "off", "0", "no", "false", "auto,off"}) {
    EXPECT_FALSE(Parsed(text).enabled()) << text;
  }
}

TEST(PressureConfigTest, AutoIsAllSourcesAndAThresholdForEachLevel) {
  for (const char* text : {"auto", "1", "yes", "true", "on"}) {
    const PressureConfig config = Parsed(text);
    EXPECT_TRUE(config.enabled()) << text;
    EXPECT_TRUE(config.psi && config.watch && config.cgroup_events) << text;
    EXPECT_EQ(config.levels[0], (PressureThreshold{ThresholdOf::kLimit, 80}));
    EXPECT_EQ(config.levels[1], (PressureThreshold{ThresholdOf::kLimit, 90}));
    EXPECT_EQ(config.levels[2], (PressureThreshold{ThresholdOf::kLimit, 95}));
  }
}

TEST(PressureConfigTest, AListIsWhatItNamesAndNothingElse) {
  const PressureConfig config = Parsed("level1=80%,level3=3G,psi=some:150ms/1s");
  EXPECT_EQ(config.levels[0], (PressureThreshold{ThresholdOf::kLimit, 80}));
  EXPECT_EQ(config.levels[1], PressureThreshold());
  EXPECT_EQ(config.levels[2], (PressureThreshold{ThresholdOf::kBytes, uint64_t{3} << 30}));
  EXPECT_TRUE(config.psi);
  EXPECT_EQ(config.psi_trigger.stall_us, 150'000U);
  EXPECT_EQ(config.psi_trigger.window_us, 1'000'000U);
  EXPECT_FALSE(config.watch);
  EXPECT_FALSE(config.cgroup_events);
}

TEST(PressureConfigTest, ALaterWordPrevails) {
  const PressureConfig config = Parsed("auto,level3=97%system,level1=off,psi=off,watch=off");
  EXPECT_EQ(config.levels[0], PressureThreshold());
  EXPECT_EQ(config.levels[1], (PressureThreshold{ThresholdOf::kLimit, 90}));
  EXPECT_EQ(config.levels[2], (PressureThreshold{ThresholdOf::kSystem, 97}));
  EXPECT_FALSE(config.psi);
  EXPECT_FALSE(config.watch);
  EXPECT_TRUE(config.cgroup_events);
  EXPECT_TRUE(Parsed("level1=5,auto").watch);
}

TEST(PressureConfigTest, WhatAPercentageIsOfCanBeSaid) {
  EXPECT_EQ(Parsed("level1=1%cgroup").levels[0], (PressureThreshold{ThresholdOf::kCgroup, 1}));
  EXPECT_EQ(Parsed("level2=100%heap").levels[1], (PressureThreshold{ThresholdOf::kHeap, 100}));
  EXPECT_EQ(Parsed("level3=50%system").levels[2], (PressureThreshold{ThresholdOf::kSystem, 50}));
}

TEST(PressureConfigTest, BytesHaveUnits) {
  EXPECT_EQ(Parsed("level1=7").levels[0].value, 7U);
  EXPECT_EQ(Parsed("level1=7k").levels[0].value, uint64_t{7} << 10);
  EXPECT_EQ(Parsed("level1=7M").levels[0].value, uint64_t{7} << 20);
  EXPECT_EQ(Parsed("level1=7T").levels[0].value, uint64_t{7} << 40);
}

TEST(PressureConfigTest, IntervalsAreInSecondsOrMilliseconds) {
  EXPECT_EQ(Parsed("auto").interval_ms, 1000U);
  EXPECT_EQ(Parsed("auto,interval=5s").interval_ms, 5000U);
  EXPECT_EQ(Parsed("interval=250ms").interval_ms, 250U);
  EXPECT_FALSE(Parsed("interval=250ms").enabled());
}

TEST(PressureConfigTest, TheThreadCanBeDoneWithout) {
  EXPECT_TRUE(Parsed("auto").thread);
  EXPECT_FALSE(Parsed("auto,thread=off").thread);
  EXPECT_TRUE(Parsed("thread=off,thread=on").thread);
}

TEST(PressureConfigTest, SaysWhichWordIsWrong) {
  for (const char* word : {"always",
                           "level0=5%",
                           "level4=5%",
                           "level1",
                           "level1=",
                           "level1=0",
                           "level1=0%",
                           "level1=101%",
                           "level1=5%disk",
                           "level1=5X",
                           "level1=5KB",
                           "level1=-5",
                           "level1= 5",
                           "level1=18446744073709551616",
                           "level1=18446744073709551615k",
                           "psi=",
                           "psi=never",
                           "watch=",
                           "watch=maybe",
                           "thread=",
                           "thread=1",
                           "interval=",
                           "interval=5",
                           "interval=0s",
                           "interval=3601s",
                           "AUTO",
                           " auto",
                           "aut"}) {
    EXPECT_EQ(Wrong(word), word);
    EXPECT_EQ(Wrong("auto," + std::string(word) + ",psi=off"), word);
  }
  EXPECT_EQ(Wrong("auto,,psi=off"), "");
}

// For every text, the parser reads no byte past the end (AddressSanitizer checks this).
TEST(PressureConfigTest, AnyTextIsReadOrRefused) {
  constexpr unsigned kSeed = 20261122;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  const std::string_view parts[] = {"auto", "level", "1", "2", "=", "%",  ",",  "psi", "some",
                                    ":",    "ms",    "/", "s", "G", "of", "ff", "99",  "heap"};
  size_t read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string made;
    for (size_t n = random() % 8; n > 0; --n) made += parts[random() % std::size(parts)];
    // The buffer ends with the text.
    const std::vector<char> text(made.begin(), made.end());
    const std::string_view view(text.data(), text.size());
    PressureConfig config;
    std::string_view wrong;
    if (ParsePressureConfig(view, &config, &wrong)) {
      ++read;
    } else if (!wrong.empty()) {
      EXPECT_NE(view.find(wrong), std::string_view::npos);
    }
  }
  EXPECT_GT(read, 100U);
}

}  // namespace
}  // namespace tcmalloc
