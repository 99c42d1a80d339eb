// SPDX-License-Identifier: BSD-3-Clause
#include "report/timeline.h"

#include <fmt/format.h>

#include <ctime>
#include <iterator>
#include <string_view>

#include "report/statistics_report.h"

namespace cli {
namespace {

struct Metric {
  std::string name;
  uint64_t value = 0;

  bool is_counter() const { return name.ends_with(kTotal); }
  // The name of the metric family: OpenMetrics names a counter without its suffix.
  std::string_view family() const {
    return std::string_view(name).substr(0, name.size() - (is_counter() ? kTotal.size() : 0));
  }
  const char* type() const { return is_counter() ? "counter" : "gauge"; }

  static constexpr std::string_view kTotal = "_total";
};

std::vector<Metric> MetricsOf(const ProcessFigures& reading) {
  const auto& memory = reading.info.memory;
  std::vector<Metric> metrics = {{"process_resident_bytes", memory.resident_bytes},
                                 {"process_anonymous_bytes", memory.anonymous_bytes},
                                 {"process_swapped_bytes", memory.swapped_bytes},
                                 {"process_peak_resident_bytes", memory.peak_resident_bytes},
                                 {"process_threads", reading.info.threads}};
  if (reading.stats.has_value()) {
    for (const auto& [name, value] : reading.stats->figures) metrics.push_back({name, value});
  }
  return metrics;
}

// Escapes text for the value of a label.
std::string Quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\\' || c == '"') quoted += '\\';
    // Names of processes may have any bytes, but an exposition has only UTF-8.
    quoted += c == '\n' ? "\\n" : static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : "?";
  }
  return quoted;
}

std::string LabelsOf(const ProcessInfo& info) {
  return fmt::format("{{pid=\"{}\",name=\"{}\"}}", info.pid, Quoted(info.name));
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
  const std::string labels = LabelsOf(reading.info);
  const double time = static_cast<double>(reading.time_ms) / 1000;
  for (const Metric& metric : MetricsOf(reading)) {
    fmt::format_to(to, "# TYPE tcmalloc_{} {}\n", metric.family(), metric.type());
    if (metric.family().ends_with("_bytes")) {
      fmt::format_to(to, "# UNIT tcmalloc_{} bytes\n", metric.family());
    }
    fmt::format_to(to, "tcmalloc_{}{} {} {:.3f}\n", metric.name, labels, metric.value, time);
  }
  return out + "# EOF\n";
}

std::string TimelinePrometheus(const ProcessFigures& reading) {
  std::string out;
  const auto to = std::back_inserter(out);
  const std::string labels = LabelsOf(reading.info);
  for (const Metric& metric : MetricsOf(reading)) {
    fmt::format_to(to, "# TYPE tcmalloc_{} {}\n", metric.name, metric.type());
    fmt::format_to(to, "tcmalloc_{}{} {}\n", metric.name, labels, metric.value);
  }
  return out;
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
  // The first and the last point are kept, so that the plot covers the whole time.
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
