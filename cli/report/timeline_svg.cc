// SPDX-License-Identifier: BSD-3-Clause
// The plot of a timeline.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/sizes.h"
#include "report/timeline.h"

namespace cli {
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
