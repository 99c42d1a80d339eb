// SPDX-License-Identifier: BSD-3-Clause
// Tests the points of a plot over a long time.
#include "report/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cli {
namespace {

TEST(PlotPointsTest, OfMillionsOfReadingsFewStayAndThePeakAmongThem) {
  constexpr size_t kMost = 100;
  constexpr int64_t kReadings = 2'000'000;
  constexpr int64_t kPeak = 1'234'567;
  std::vector<PlotPoint> points;
  for (int64_t time = 0; time < kReadings; ++time) {
    AddPoint({.time_ms = time, .resident_bytes = time == kPeak ? 1000u : 10u}, kMost, &points);
    ASSERT_LE(points.size(), kMost);
  }
  EXPECT_GE(points.size(), kMost / 2);
  EXPECT_TRUE(
      std::is_sorted(points.begin(), points.end(),
                     [](const PlotPoint& a, const PlotPoint& b) { return a.time_ms < b.time_ms; }));
  EXPECT_EQ(points.back().time_ms, kReadings - 1);
  EXPECT_EQ(std::count_if(points.begin(), points.end(),
                          [](const PlotPoint& point) {
                            return point.time_ms == kPeak && point.resident_bytes == 1000;
                          }),
            1);
}

}  // namespace
}  // namespace cli
