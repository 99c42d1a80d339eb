// SPDX-License-Identifier: BSD-3-Clause
// Tests the points of a plot over a long time.
#include "report/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cli {
namespace {

TEST(PlotPointsTest, OfTwoNeighboursTheOneWithMoreResidentMemoryStays) {
  std::vector<PlotPoint> points;
  for (const uint64_t bytes : {1, 2, 4, 3, 5, 6}) {
    AddPoint({.time_ms = static_cast<int64_t>(points.size()), .resident_bytes = bytes}, 6, &points);
  }
  EXPECT_EQ(points.size(), 6u);
  AddPoint({.time_ms = 6, .resident_bytes = 0}, 6, &points);
  std::vector<int64_t> times;
  for (const PlotPoint& point : points) times.push_back(point.time_ms);
  // The first point, two pairs, one without a neighbour, and the last one.
  EXPECT_EQ(times, (std::vector<int64_t>{0, 2, 4, 5, 6}));
  EXPECT_EQ(points[1].resident_bytes, 4u);
}

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
