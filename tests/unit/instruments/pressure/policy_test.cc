// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/policy.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "testing/sizes.h"

namespace tcmalloc {
namespace {

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

TEST(PressurePolicyTest, ActionsThatFreeLittleBackOff) {
  PressurePolicy policy(kPolicyIntervalMs);
  int64_t last = -1;
  int64_t wait = 0;
  int actions = 0;
  for (int64_t now = 0; now < 400 * kPolicyIntervalMs; now += 100) {
    if (policy.DueByUse(now, InUse(850)) == 0) continue;
    wait = now - last;
    last = now;
    ++actions;
    policy.ActedByUse(now, 0, 850 * kMiB);
  }
  // The actions come after 1, 2, 4 ... 64, 64 ... intervals.
  EXPECT_EQ(wait, kMaxWaits * kPolicyIntervalMs);
  EXPECT_EQ(actions, 12);
}

TEST(PressurePolicyTest, OneThatFreesMuchEndsTheBackOff) {
  PressurePace pace(kPolicyIntervalMs);
  int64_t now = 0;
  for (int i = 0; i < 4; ++i) {
    now += pace.RemainingMs(now);
    pace.Acted(now, 0, kMuch);
  }
  EXPECT_EQ(pace.wait_ms(), 8 * kPolicyIntervalMs);
  now += pace.RemainingMs(now);
  pace.Acted(now, kMuch, kMuch);
  EXPECT_EQ(pace.wait_ms(), kPolicyIntervalMs);
}

TEST(PressurePolicyTest, GrowthEndsAWait) {
  PressurePace pace(kPolicyIntervalMs);
  pace.Acted(0, 0, 320 * kMiB);
  EXPECT_FALSE(pace.MayAct(kMinWaitMs, 330 * kMiB));
  EXPECT_TRUE(pace.MayAct(kMinWaitMs, 331 * kMiB));
  EXPECT_FALSE(pace.MayAct(kMinWaitMs - 1, 1000 * kMiB));
  EXPECT_FALSE(pace.MayAct(kMinWaitMs, 100 * kMiB));
}

TEST(PressurePolicyTest, EventsAskForAllThereIsAndKeepTheirOwnPace) {
  PressurePolicy policy(kPolicyIntervalMs);
  EXPECT_EQ(policy.EventsDisarmedMs(0), 0);
  EXPECT_EQ(policy.EventsDisarmedMs(1'000'000), 0);
  EXPECT_EQ(policy.DueByEvent(0, kMuch), 3);
  policy.ActedByEvent(0, kMuch, kMuch);
  EXPECT_EQ(policy.DueByEvent(1, kMuch), 0);
  EXPECT_EQ(policy.EventsDisarmedMs(1), kPolicyIntervalMs - 1);
  EXPECT_EQ(policy.DueByUse(1, InUse(800)), 1);
  EXPECT_EQ(policy.DueByEvent(kPolicyIntervalMs, kMuch), 3);
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
