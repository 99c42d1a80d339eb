// SPDX-License-Identifier: BSD-3-Clause
#include "report/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cli {
namespace {

ProcessFigures Example() {
  ProcessFigures reading{.time_ms = 1795613121450};
  reading.info.pid = 7;
  reading.info.name = "a\"b\\c\n\xff";
  reading.info.memory.resident_bytes = 1000;
  reading.stats.emplace();
  reading.stats->figures = {{"in_use_bytes", 300}, {"actual_bytes", 500}, {"growths_total", 4}};
  return reading;
}

TEST(TimelineTest, TimeInUtc) {
  EXPECT_EQ(UtcTime(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(UtcTime(1795613121450), "2026-11-25T13:25:21.450Z");
}

TEST(TimelineTest, ALineOfJson) {
  const std::string line = TimelineJson(Example());
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto json = nlohmann::ordered_json::parse(line);
  EXPECT_EQ(json.begin().key(), "time");
  EXPECT_EQ(json["pid"], 7);
  EXPECT_EQ(json["process_resident_bytes"], 1000);
  EXPECT_EQ(json["in_use_bytes"], 300);
}

TEST(TimelineTest, AnotherMallocHasTheKernelsFigures) {
  ProcessFigures reading = Example();
  reading.stats.reset();
  EXPECT_EQ(nlohmann::json::parse(TimelineJson(reading)).count("in_use_bytes"), 0u);
  EXPECT_EQ(TimelineOpenMetrics(reading).find("in_use"), std::string::npos);
}

TEST(TimelineTest, OpenMetricsNamesFamilies) {
  const std::string text = TimelineOpenMetrics(Example());
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
  EXPECT_NE(text.find("# TYPE tcmalloc_in_use_bytes gauge\n# UNIT tcmalloc_in_use_bytes bytes\n"
                      "tcmalloc_in_use_bytes{pid=\"7\",name=\"a\\\"b\\\\c\\n?\"} 300 "
                      "1795613121.450\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("# TYPE tcmalloc_growths counter\ntcmalloc_growths_total{"),
            std::string::npos);
}

TEST(TimelineTest, PrometheusNamesSamplesAndHasNoTimes) {
  const std::string text = TimelinePrometheus(Example());
  EXPECT_NE(text.find("# TYPE tcmalloc_in_use_bytes gauge\n"
                      "tcmalloc_in_use_bytes{pid=\"7\",name=\"a\\\"b\\\\c\\n?\"} 300\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("# TYPE tcmalloc_growths_total counter\ntcmalloc_growths_total{"),
            std::string::npos);
  EXPECT_EQ(text.find("# UNIT"), std::string::npos);
}

TEST(TimelineTest, KeepsTheWholeTimeInAFewPoints) {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 1000; ++i) {
    AddPoint({.time_ms = i, .resident_bytes = i == 500 ? 9u : 1u}, 20, &points);
    ASSERT_LE(points.size(), 20u);
    ASSERT_EQ(points.front().time_ms, 0);
    ASSERT_EQ(points.back().time_ms, i);
  }
  // The point with the peak is kept.
  EXPECT_TRUE(std::any_of(points.begin(), points.end(),
                          [](const PlotPoint& point) { return point.resident_bytes == 9; }));
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end(),
                             [](const auto& a, const auto& b) { return a.time_ms < b.time_ms; }));
}

TEST(TimelineTest, ThePlotHasALineForEachFigure) {
  const std::string svg =
      TimelineSvg("a<b&c", {{.time_ms = 0, .resident_bytes = 100},
                            {.time_ms = 1000, .resident_bytes = 5000, .in_use_bytes = 3000}});
  EXPECT_NE(svg.find("a&lt;b&amp;c"), std::string::npos);
  size_t lines = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 3u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(svg.find("1 s"), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // There are no points yet, or huge values.
  EXPECT_EQ(TimelineSvg("", {}).find("nan"), std::string::npos);
  EXPECT_EQ(TimelineSvg("", {{.resident_bytes = UINT64_MAX}}).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace cli
