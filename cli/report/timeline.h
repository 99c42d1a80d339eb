// SPDX-License-Identifier: BSD-3-Clause
// Readings of a process over time, as lines of JSON, as text for Prometheus, and as a plot.
#pragma once

#include <string>
#include <vector>

#include "heap/memory_use.h"

namespace cli {

// One line: the time, the kernel's figures, the figures of tcmalloc_stats_json without its tables.
std::string TimelineJson(const ProcessFigures& reading);
// Returns a whole exposition. The metrics have the names of tcmalloc_stats_openmetrics, names for
// the process's members, and labels for the process.
std::string TimelineOpenMetrics(const ProcessFigures& reading);
// Like TimelineOpenMetrics, in the older text format of Prometheus (version 0.0.4), without times.
// node_exporter's textfile collector reads this format; it refuses OpenMetrics.
std::string TimelinePrometheus(const ProcessFigures& reading);
// "2026-11-23T11:45:35.250Z"
std::string UtcTime(int64_t time_ms);

// The figures of a reading that a plot shows.
struct PlotPoint {
  int64_t time_ms = 0;
  uint64_t resident_bytes = 0;
  uint64_t backed_bytes = 0;  // of the heap
  uint64_t in_use_bytes = 0;
};
PlotPoint PointOf(const ProcessFigures& reading);
// Adds a point. If there are more than `most` points, halves their number: of each two neighbours
// it keeps the one with more resident memory.
void AddPoint(PlotPoint point, size_t most, std::vector<PlotPoint>* points);
// Returns a self-contained drawing, without scripts.
std::string TimelineSvg(const std::string& title, const std::vector<PlotPoint>& points);

}  // namespace cli
