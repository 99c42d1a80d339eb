// SPDX-License-Identifier: BSD-3-Clause
// Readings of a process over time: as lines of JSON, as OpenMetrics, as a plot.
#pragma once

#include <string>
#include <vector>

#include "heap/process_figures.h"

namespace cli {

// One line: the time, the kernel's figures, the figures of tcmalloc_stats_json without its tables.
std::string TimelineJson(const ProcessFigures& reading);
// A whole exposition. The metrics have the names of tcmalloc_stats_openmetrics and of its members
// of the process, and labels for the process.
std::string TimelineOpenMetrics(const ProcessFigures& reading);
// "2026-11-23T11:45:35.250Z"
std::string UtcTime(int64_t time_ms);

// What a plot shows of a reading.
struct PlotPoint {
  int64_t time_ms = 0;
  uint64_t resident_bytes = 0;
  uint64_t backed_bytes = 0;  // of the heap
  uint64_t in_use_bytes = 0;
};
PlotPoint PointOf(const ProcessFigures& reading);
// Keeps at most `most` points: then of each two neighbours, the one with more resident memory.
void AddPoint(PlotPoint point, size_t most, std::vector<PlotPoint>* points);
// A drawing of its own, without scripts.
std::string TimelineSvg(const std::string& title, const std::vector<PlotPoint>& points);

}  // namespace cli
