// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/heap_dumps.h"

#include <gtest/gtest.h>

#include <string>

namespace tcmalloc {
namespace {

class HeapDumpScheduleTest : public testing::Test {
 protected:
  std::string Reason(uint64_t now_ms = 0) {
    char buffer[64];
    TextWriter out(buffer, sizeof(buffer));
    schedule.WriteReason(schedule.traffic(), now_ms, &out);
    return std::string(out.text());
  }
  static constexpr uint64_t kMiB = uint64_t{1} << 20;
  HeapDumpSchedule schedule;
};

// A file is due when the bytes in use are more than an interval above the most that was in use when
// a file was written.
TEST_F(HeapDumpScheduleTest, BytesInUse) {
  const HeapDumpIntervals intervals = {.in_use_bytes = kMiB};
  schedule.Begin(intervals, 0);
  EXPECT_FALSE(schedule.Count(kMiB, 0));
  EXPECT_TRUE(schedule.Count(1, 0));
  EXPECT_EQ(Reason(), "more than before");
  schedule.NoteDump(schedule.traffic(), intervals, 0);
  EXPECT_FALSE(schedule.Count(0, kMiB));
  schedule.NoteDump(schedule.traffic(), intervals, 0);
  EXPECT_FALSE(schedule.Count(2 * kMiB, 0)) << "a mark of 1 MiB + 1 B stays";
  EXPECT_TRUE(schedule.Count(1, 0));
  // Frees may be reported before their allocations.
  schedule.Begin(intervals, 0);
  EXPECT_FALSE(schedule.Count(0, 10));
  EXPECT_EQ(schedule.traffic().in_use(), 0u);
}

TEST_F(HeapDumpScheduleTest, TrafficThreshold) {
  EXPECT_EQ((HeapDumpIntervals{.allocated_bytes = 32000, .freed_bytes = 0, .in_use_bytes = 16000})
                .TrafficThreshold(10),
            100u);
  EXPECT_EQ(HeapDumpIntervals{.freed_bytes = 15}.TrafficThreshold(1), 0u);
  EXPECT_EQ(HeapDumpIntervals{}.TrafficThreshold(1), UINT64_MAX / 16);
}

}  // namespace
}  // namespace tcmalloc
