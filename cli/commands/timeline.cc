// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc timeline PID: records the figures of a process at intervals. The process is never
// stopped.
#include "report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/commands.h"
#include "commands/interrupt_watch.h"
#include "commands/open_process.h"
#include "commands/options.h"
#include "heap/memory_use.h"
#include "image/output.h"

namespace cli {
namespace {

struct TimelineOptions {
  std::string process;
  double every = 1;
  uint64_t count = 0;
  bool json = false;
  bool openmetrics = false;
  bool prometheus = false;
  std::string output = "-";
  std::string svg;
};

constexpr double kShortestInterval = 0.01;
constexpr size_t kMostPoints = 2000;

class Recorder {
 public:
  explicit Recorder(const TimelineOptions& options) : options_(options) {}

  void Add(const ProcessFigures& reading) {
    const std::string text = Text(reading);
    if (options_.openmetrics || options_.prometheus) {
      WriteOutput(options_.output, text);
    } else {
      AppendOutput(options_.output, text);
    }
    if (options_.svg.empty()) return;
    AddPoint(PointOf(reading), kMostPoints, &points_);
    const std::string title = fmt::format("{}, process {}, from {}", reading.info.name,
                                          reading.info.pid, UtcTime(points_.front().time_ms));
    WriteOutput(options_.svg, TimelineSvg(title, points_));
  }

 private:
  std::string Text(const ProcessFigures& reading) const {
    if (options_.openmetrics) return TimelineOpenMetrics(reading);
    if (options_.prometheus) return TimelinePrometheus(reading);
    return TimelineJson(reading);
  }

  const TimelineOptions& options_;
  std::vector<PlotPoint> points_;
};

int Timeline(const TimelineOptions& options) {
  const pid_t pid = RunningPid(options.process, "timeline");
  const OpenProcess process = OpenProcessFor(pid);
  std::optional<Target> target;
  if (process.runs_on_this_allocator()) {
    target.emplace(*process.image, *process.root);
  } else {
    fmt::print(stderr,
               "tcmalloc: process {} ({}) runs on {}, not on this TCMalloc: the kernel's "
               "figures only\n",
               pid, process.info.name, OtherAllocator(process.image->Mappings()));
  }
  const auto interval = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::max(options.every, kShortestInterval)));
  InterruptWatch signals;
  Recorder recorder(options);
  auto next = std::chrono::steady_clock::now();
  for (uint64_t n = 0; options.count == 0 || n < options.count; ++n) {
    if (n > 0 && !signals.WaitUntil(next)) break;
    std::optional<ProcessFigures> reading;
    try {
      reading = ReadProcessFigures(pid, target.has_value() ? &*target : nullptr);
    } catch (const Failure&) {
      // A process that has ended stays until its parent waits for it.
      const auto info = ReadProcessInfo(pid);
      if (n == 0 || (info.has_value() && !info->is_zombie())) throw;
    }
    if (!reading.has_value()) {
      fmt::print(stderr, "tcmalloc: process {} has ended after {} readings\n", pid, n);
      break;
    }
    recorder.Add(*reading);
    next += interval;
  }
  return target.has_value() ? kSuccess : kOtherMalloc;
}

}  // namespace

void AddTimeline(CLI::App& parser, int* status) {
  const auto options = std::make_shared<TimelineOptions>();
  CLI::App* const command =
      parser.add_subcommand("timeline", "The figures of a process at intervals, and a plot");
  command->add_option("pid", options->process, "The process")->required();
  AddDuration(command, "--every", &options->every, "The interval: 500ms, 1s, 5m; 1s by default");
  command->add_option("--count", options->count,
                      "The number of readings; without, until the process ends or Ctrl-C");
  command->add_flag("--json", options->json, "Print a line of JSON for each reading: the default");
  command
      ->add_flag("--openmetrics", options->openmetrics, "Print each reading as OpenMetrics instead")
      ->excludes("--json");
  command
      ->add_flag("--prometheus", options->prometheus,
                 "Print each reading in Prometheus' text format, for node_exporter")
      ->excludes("--json")
      ->excludes("--openmetrics");
  command
      ->add_option("-o,--output", options->output,
                   "Append to this file instead; with --openmetrics and --prometheus, replace it")
      ->type_name("FILE");
  command->add_option("--svg", options->svg, "Draw a plot into this file, after each reading")
      ->type_name("FILE");
  command->callback([options, status] { *status = Timeline(*options); });
}

}  // namespace cli
