// SPDX-License-Identifier: BSD-3-Clause
// Reads the figures of a simulated system: limits change, groups vanish, and files do not exist.
#include <gtest/gtest.h>

#include "instruments/pressure/figures.h"
#include "process/new_heap.h"
#include "testing/fake_tree.h"

namespace tcmalloc {
namespace {

using ThresholdOf = PressureThreshold::Of;
class ProcessFiguresTest : public testing::Test {
 protected:
  ProcessFiguresTest() : root_(tree_.root()), figures_(NewHeap(), root_) {}

  void BeInGroupOfVersion2() {
    tree_.Write("/proc/self/cgroup", "0::/service\n");
    tree_.Write("/proc/self/mountinfo",
                "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
    tree_.Write("/sys/fs/cgroup/service/memory.max", "1000000\n");
    tree_.Write("/sys/fs/cgroup/service/memory.stat", "anon 300000\nfile 900000\n");
  }
  void BeginWith(ThresholdOf of) {
    PressureConfig config;
    config.levels[0] = {of, 50};
    figures_.Begin(config);
  }

  FakeTree tree_;
  const std::string root_;
  ProcessFigures figures_;
};

TEST_F(ProcessFiguresTest, OfAGroupItsAnonymousMemoryCounts) {
  BeInGroupOfVersion2();
  BeginWith(ThresholdOf::kCgroup);
  EXPECT_STREQ(figures_.directories().v2, (root_ + "/sys/fs/cgroup/service").c_str());
  const PressureFigures figures = figures_.Read(0);
  EXPECT_EQ(figures.cgroup_limit, 1'000'000U);
  EXPECT_EQ(figures.cgroup_in_use, 300'000U);
  EXPECT_EQ(figures.system_memory, PressureFigures::kUnknown) << "nobody asked for it";
  const PressureReadings readings = figures_.ReadLevels(0);
  EXPECT_EQ(readings[0].threshold, 500'000U);
  EXPECT_EQ(readings[1].threshold, PressureReading::kNoThreshold);
}

TEST_F(ProcessFiguresTest, OfTheSystemWhatIsNotAvailableCounts) {
  tree_.Write("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 400 kB\n");
  BeginWith(ThresholdOf::kSystem);
  const PressureFigures figures = figures_.Read(0);
  EXPECT_EQ(figures.system_memory, 1000U << 10);
  EXPECT_EQ(figures.system_in_use, 600U << 10);
}

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
