// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/config.h"

#include <gtest/gtest.h>

#include <sstream>
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

TEST(PressureConfigTest, AListIsWhatItNamesAndALaterWordPrevails) {
  const PressureConfig list = Parsed("level3=3G,psi=some:150ms/1s");
  EXPECT_EQ(list.levels[0], PressureThreshold());
  EXPECT_TRUE(list.psi && !list.watch && !list.cgroup_events);
  EXPECT_EQ(list.psi_trigger, (PsiTrigger{false, 150'000, 1'000'000}));
  const PressureConfig config = Parsed("auto,level3=97%system,level1=off,psi=off,watch=off");
  EXPECT_EQ(config.levels[0], PressureThreshold());
  EXPECT_EQ(config.levels[1], (PressureThreshold{ThresholdOf::kLimit, 90}));
  EXPECT_EQ(config.levels[2], (PressureThreshold{ThresholdOf::kSystem, 97}));
  EXPECT_FALSE(config.psi);
  EXPECT_FALSE(config.watch);
  EXPECT_TRUE(config.cgroup_events);
  EXPECT_TRUE(Parsed("level1=5,auto").watch);
}

TEST(PressureConfigTest, ThresholdsHaveUnits) {
  const struct {
    const char* text;
    PressureThreshold threshold;
  } kRows[] = {{"1%cgroup", {ThresholdOf::kCgroup, 1}},
               {"100%heap", {ThresholdOf::kHeap, 100}},
               {"50%system", {ThresholdOf::kSystem, 50}},
               {"7", {ThresholdOf::kBytes, 7}},
               {"7k", {ThresholdOf::kBytes, uint64_t{7} << 10}},
               {"7M", {ThresholdOf::kBytes, uint64_t{7} << 20}},
               {"7T", {ThresholdOf::kBytes, uint64_t{7} << 40}}};
  for (const auto& [text, threshold] : kRows) {
    EXPECT_EQ(Parsed("level2=" + std::string(text)).levels[1], threshold) << text;
  }
}

TEST(PressureConfigTest, IntervalAndThreadAreNoSources) {
  const PressureConfig config = Parsed("interval=250ms,thread=off");
  EXPECT_EQ(config.interval_ms, 250U);
  EXPECT_FALSE(config.thread || config.enabled());
  EXPECT_EQ(Parsed("auto,interval=5s").interval_ms, 5000U);
  EXPECT_EQ(Parsed("auto").interval_ms, 1000U);
  EXPECT_TRUE(Parsed("auto").thread);
}

TEST(PressureConfigTest, SaysWhichWordIsWrong) {
  std::istringstream words(
      "always level0=5% level4=5% level1 level1= level1=0 level1=0% level1=101% level1=5%disk "
      "level1=5X level1=5KB level1=-5 level1=18446744073709551616 level1=18446744073709551615k "
      "psi= psi=never watch= watch=maybe thread= thread=1 interval= interval=5 interval=0s "
      "interval=3601s AUTO aut");
  for (std::string word; words >> word;) {
    EXPECT_EQ(Wrong(word), word);
    EXPECT_EQ(Wrong("auto," + word + ",psi=off"), word);
  }
  EXPECT_EQ(Wrong(" auto"), " auto");
  EXPECT_EQ(Wrong("auto,,psi=off"), "");
}

}  // namespace
}  // namespace tcmalloc
