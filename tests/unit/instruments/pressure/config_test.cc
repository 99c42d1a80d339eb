// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/config.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

#include "testing/sizes.h"

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

constexpr int64_t kPolicyIntervalMs = 1000;
constexpr uint64_t kMuch = 100 * kMiB;

// All levels apply to the same memory, with thresholds of 800, 900 and 950 MiB.
PressureReadings InUse(uint64_t mib) {
  return {{{mib * kMiB, 800 * kMiB}, {mib * kMiB, 900 * kMiB}, {mib * kMiB, 950 * kMiB}}};
}

TEST(PressurePolicyTest, TheHighestLevelReachedIsDue) {
  for (const auto& [mib, level] :
       {std::pair{0, 0}, {799, 0}, {800, 1}, {899, 1}, {900, 2}, {950, 3}, {2000, 3}}) {
    PressurePolicy policy(kPolicyIntervalMs);
    EXPECT_EQ(policy.DueByUse(0, InUse(static_cast<uint64_t>(mib))), level) << mib;
  }
}

TEST(PressurePolicyTest, ALevelThatIsHeldIsDueAgainAfterTheIntervalAndAHigherOneAtOnce) {
  PressurePolicy policy(kPolicyIntervalMs);
  EXPECT_EQ(policy.DueByUse(0, PressureReadings()), 0);
  EXPECT_EQ(policy.DueByUse(0, InUse(850)), 1);
  policy.ActedByUse(0, kMuch, 850 * kMiB);
  EXPECT_EQ(policy.DueByUse(kPolicyIntervalMs - 1, InUse(850)), 0);
  EXPECT_EQ(policy.DueByUse(kPolicyIntervalMs, InUse(850)), 1);
  policy.ActedByUse(kPolicyIntervalMs, kMuch, 850 * kMiB);
  EXPECT_EQ(policy.DueByUse(kPolicyIntervalMs + 1, InUse(900)), 2);
  policy.ActedByUse(kPolicyIntervalMs + 1, kMuch, 820 * kMiB);
  EXPECT_EQ(policy.DueByUse(2 * kPolicyIntervalMs + 1, InUse(820)), 1) << "fell to a lower one";
}

TEST(PressurePolicyTest, ALevelIsLeftOnlyWellBelowItsThreshold) {
  PressurePolicy policy(kPolicyIntervalMs);
  EXPECT_EQ(policy.DueByUse(0, InUse(800)), 1);
  policy.ActedByUse(0, kMuch, 799 * kMiB);
  // A 32nd below 800 MiB is 775 MiB.
  EXPECT_EQ(policy.DueByUse(100, InUse(776)), 0);
  EXPECT_EQ(policy.level(), 1);
  EXPECT_EQ(policy.DueByUse(kPolicyIntervalMs, InUse(776)), 1);
  policy.ActedByUse(kPolicyIntervalMs, kMuch, 776 * kMiB);
  EXPECT_EQ(policy.DueByUse(2 * kPolicyIntervalMs, InUse(774)), 0);
  EXPECT_EQ(policy.level(), 0);
  // When the level is entered again, its action is due at once.
  EXPECT_EQ(policy.DueByUse(2 * kPolicyIntervalMs + 1, InUse(800)), 1);
}

TEST(PressurePolicyTest, AnActionThatFreesLittleIsRepeatedLater) {
  PressurePolicy policy(kPolicyIntervalMs);
  EXPECT_EQ(policy.DueByUse(0, InUse(850)), 1);
  // A 32nd of 832 MiB is 26 MiB.
  policy.ActedByUse(0, 26 * kMiB - 1, 832 * kMiB);
  const int64_t next = kWaitsAfterLittle * kPolicyIntervalMs;
  EXPECT_EQ(policy.DueByUse(next - 1, InUse(899)), 0);
  EXPECT_EQ(policy.DueByUse(next, InUse(850)), 1);
  policy.ActedByUse(next, 26 * kMiB, 832 * kMiB);
  EXPECT_EQ(policy.DueByUse(next + kPolicyIntervalMs, InUse(850)), 1);
  policy.ActedByUse(next + kPolicyIntervalMs, 0, 850 * kMiB);
  EXPECT_EQ(policy.DueByUse(next + kPolicyIntervalMs + 1, InUse(900)), 2) << "a higher level";
}

TEST(PressurePolicyTest, EventsAskForAllThereIsAndKeepTheirOwnPace) {
  PressurePolicy policy(kPolicyIntervalMs);
  EXPECT_EQ(policy.EventsDisarmedMs(0), 0);
  EXPECT_EQ(policy.EventsDisarmedMs(1'000'000), 0);
  EXPECT_EQ(policy.DueByEvent(0), 3);
  policy.ActedByEvent(0, kMuch, kMuch);
  EXPECT_EQ(policy.DueByEvent(1), 0);
  EXPECT_EQ(policy.EventsDisarmedMs(1), kPolicyIntervalMs - 1);
  EXPECT_EQ(policy.DueByUse(1, InUse(800)), 1);
  EXPECT_EQ(policy.DueByEvent(kPolicyIntervalMs), 3);
  EXPECT_EQ(policy.EventsDisarmedMs(kPolicyIntervalMs), 0);
}

TEST(PressurePolicyTest, ReadingsAreMadeMoreOftenNearAThreshold) {
  EXPECT_LT(PressurePolicy::NextReadingMs(PressureReadings()), 0);
  EXPECT_EQ(PressurePolicy::NextReadingMs(InUse(599)), kFarMs);
  EXPECT_EQ(PressurePolicy::NextReadingMs(InUse(600)), kNearMs);
  EXPECT_EQ(PressurePolicy::NextReadingMs(InUse(5000)), kNearMs);
}

}  // namespace
}  // namespace tcmalloc
