// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/figures.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

using ThresholdOf = PressureThreshold::Of;
constexpr uint64_t kUnknown = PressureFigures::kUnknown;
constexpr uint64_t kNoThreshold = PressureReading::kNoThreshold;

constexpr PressureFigures kAll = {.cgroup_in_use = 10,
                                  .cgroup_limit = 1000,
                                  .heap_in_use = 20,
                                  .heap_limit = 2000,
                                  .system_in_use = 30,
                                  .system_memory = 3000,
                                  .process_in_use = 40};

void ExpectReading(const PressureThreshold& threshold, const PressureFigures& figures,
                   uint64_t in_use, uint64_t at) {
  const PressureReading reading = ReadingFor(threshold, figures);
  EXPECT_EQ(reading.threshold, at);
  if (at != kNoThreshold) {
    EXPECT_EQ(reading.in_use, in_use);
  }
  EXPECT_EQ(ReadingFor(threshold, PressureFigures()).threshold, kNoThreshold) << "unknown figures";
}

TEST(PressureFiguresTest, EachKindHasItsOwn) {
  ExpectReading({ThresholdOf::kNone, 50}, kAll, 0, kNoThreshold);
  ExpectReading({ThresholdOf::kBytes, 50}, kAll, 40, 50);
  ExpectReading({ThresholdOf::kCgroup, 50}, kAll, 10, 500);
  ExpectReading({ThresholdOf::kHeap, 50}, kAll, 20, 1000);
  ExpectReading({ThresholdOf::kSystem, 50}, kAll, 30, 1500);
}

TEST(PressureFiguresTest, TheLimitIsTheNearestThereIs) {
  PressureFigures figures = kAll;
  ExpectReading({ThresholdOf::kLimit, 10}, figures, 10, 100);
  figures.cgroup_limit = kUnknown;
  ExpectReading({ThresholdOf::kLimit, 10}, figures, 20, 200);
  figures.heap_limit = kUnknown;
  ExpectReading({ThresholdOf::kLimit, 10}, figures, 30, 300);
}

}  // namespace
}  // namespace tcmalloc
