// SPDX-License-Identifier: BSD-3-Clause
#include "report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <string_view>

#include "image/text.h"
#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

struct Metric {
  std::string name;
  uint64_t value = 0;

  bool is_counter() const { return name.ends_with(kTotal); }
  // The name of the metric family. OpenMetrics names a counter without its suffix.
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
  return DumpJson(json) + "\n";
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

// The plot of a timeline.

namespace {

// Sizes in units of the drawing.
constexpr double kPlotWidth = 800;
constexpr double kHeight = 400;
constexpr double kLeft = 90;
constexpr double kRight = 20;
constexpr double kPlotTop = 60;
constexpr double kBottom = 40;
constexpr int kMarks = 5;

struct PlotLine {
  const char* name;
  const char* colour;
  uint64_t PlotPoint::* bytes;
};
constexpr PlotLine kLines[] = {
    {"resident, whole process", "#888888", &PlotPoint::resident_bytes},
    {"heap, backed", "#1f77b4", &PlotPoint::backed_bytes},
    {"in use by the program", "#d62728", &PlotPoint::in_use_bytes},
};

std::string EscapedAscii(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      escaped += byte < 0x20 || byte >= 0x7f ? '?' : c;
    }
  }
  return escaped;
}

std::string Seconds(double seconds) {
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 7200) return fmt::format("{:.3g} min", seconds / 60);
  return fmt::format("{:.3g} h", seconds / 3600);
}

// Returns the top of the scale; the step between marks is a power of two.
uint64_t RoundUp(uint64_t bytes) {
  uint64_t step = 1024;
  while (step * kMarks < bytes && step < uint64_t{1} << 60) step *= 2;
  return step * kMarks;
}

}  // namespace

std::string TimelineSvg(const std::string& title, const std::vector<PlotPoint>& points) {
  uint64_t most = 1;
  for (const PlotPoint& point : points) {
    for (const PlotLine& line : kLines) most = std::max(most, point.*line.bytes);
  }
  const uint64_t top = RoundUp(most);
  const int64_t begin = points.empty() ? 0 : points.front().time_ms;
  const int64_t length = points.empty() ? 1 : std::max<int64_t>(points.back().time_ms - begin, 1);
  const auto x = [&](int64_t time_ms) {
    return kLeft + (kPlotWidth - kLeft - kRight) * static_cast<double>(time_ms - begin) /
                       static_cast<double>(length);
  };
  const auto y = [&](uint64_t bytes) {
    return kHeight - kBottom -
           (kHeight - kPlotTop - kBottom) * static_cast<double>(bytes) / static_cast<double>(top);
  };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"20\" font-size=\"15\">{3}</text>\n",
      kPlotWidth, kHeight, kLeft, EscapedAscii(title));
  const auto to = std::back_inserter(out);
  for (int i = 0; i <= kMarks; ++i) {
    const uint64_t bytes = top / kMarks * static_cast<uint64_t>(i);
    fmt::format_to(to,
                   "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#dddddd\"/>"
                   "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
                   kLeft, kPlotWidth - kRight, y(bytes), kLeft - 8, y(bytes) + 4, Size(bytes));
    const int64_t time = length * i / kMarks;
    fmt::format_to(to, "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                   x(begin + time), kHeight - kBottom + 20,
                   Seconds(static_cast<double>(time) / 1000));
  }
  double legend = kLeft;
  for (const PlotLine& line : kLines) {
    fmt::format_to(to, "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"",
                   line.colour);
    for (const PlotPoint& point : points) {
      fmt::format_to(to, "{:.1f},{:.1f} ", x(point.time_ms), y(point.*line.bytes));
    }
    const uint64_t last = points.empty() ? 0 : points.back().*line.bytes;
    const std::string text = fmt::format("{}: {}", line.name, Size(last));
    fmt::format_to(to, "\"/>\n<text x=\"{:.0f}\" y=\"42\" fill=\"{}\">{}</text>\n", legend,
                   line.colour, text);
    legend += 7.5 * static_cast<double>(text.size()) + 20;
  }
  return out + "</svg>\n";
}

}  // namespace cli
