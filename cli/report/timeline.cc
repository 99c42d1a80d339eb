// SPDX-License-Identifier: BSD-3-Clause
#include "report/timeline.h"

#include <fmt/format.h>

#include <ctime>
#include <iterator>

#include "report/statistics_report.h"

namespace cli {
namespace {

// In the value of a label.
std::string Quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\\' || c == '"') quoted += '\\';
    // Names of processes may have any bytes, an exposition has UTF-8 only.
    quoted += c == '\n' ? "\\n" : static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : "?";
  }
  return quoted;
}

}  // namespace

std::string UtcTime(int64_t time_ms) {
  const time_t seconds = time_ms / 1000;
  tm parts;
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     time_ms % 1000);
}

std::string TimelineJson(const ProcessFigures& reading) {
  nlohmann::ordered_json json = {{"time", UtcTime(reading.time_ms)}};
  json.update(ProcessJson(reading.info));
  if (reading.stats.has_value()) {
    for (const auto& [name, value] : reading.stats->figures) json[name] = value;
    json["unsettled"] = reading.stats->unsettled;
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string TimelineOpenMetrics(const ProcessFigures& reading) {
  std::string out;
  const auto to = std::back_inserter(out);
  const std::string labels =
      fmt::format("{{pid=\"{}\",name=\"{}\"}}", reading.info.pid, Quoted(reading.info.name));
  const double time = static_cast<double>(reading.time_ms) / 1000;
  const auto metric = [&](std::string_view name, uint64_t value) {
    const bool counter = name.ends_with("_total");
    const std::string_view family =
        counter ? name.substr(0, name.size() - std::string_view("_total").size()) : name;
    fmt::format_to(to, "# TYPE tcmalloc_{} {}\n", family, counter ? "counter" : "gauge");
    if (family.ends_with("_bytes")) fmt::format_to(to, "# UNIT tcmalloc_{} bytes\n", family);
    fmt::format_to(to, "tcmalloc_{}{} {} {:.3f}\n", name, labels, value, time);
  };
  metric("process_resident_bytes", reading.info.memory.resident_bytes);
  metric("process_anonymous_bytes", reading.info.memory.anonymous_bytes);
  metric("process_swapped_bytes", reading.info.memory.swapped_bytes);
  metric("process_peak_resident_bytes", reading.info.memory.peak_resident_bytes);
  metric("process_threads", reading.info.threads);
  if (reading.stats.has_value()) {
    for (const auto& [name, value] : reading.stats->figures) metric(name, value);
  }
  return out + "# EOF\n";
}

PlotPoint PointOf(const ProcessFigures& reading) {
  return {.time_ms = reading.time_ms,
          .resident_bytes = reading.info.memory.resident_bytes,
          .backed_bytes = reading.figure("actual_bytes"),
          .in_use_bytes = reading.figure("in_use_bytes")};
}

void AddPoint(PlotPoint point, size_t most, std::vector<PlotPoint>* points) {
  points->push_back(point);
  if (points->size() <= most) return;
  // The first and the last stay, so that the plot has the whole time.
  std::vector<PlotPoint> kept = {points->front()};
  for (size_t i = 1; i + 1 < points->size(); i += 2) {
    const PlotPoint& a = (*points)[i];
    const PlotPoint& b = (*points)[i + 2 < points->size() ? i + 1 : i];
    kept.push_back(a.resident_bytes >= b.resident_bytes ? a : b);
  }
  kept.push_back(points->back());
  *points = std::move(kept);
}

}  // namespace cli
