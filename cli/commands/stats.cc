// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc stats PID: where the memory is. The process is never stopped.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "heap/statistics.h"
#include "report/statistics_report.h"

namespace cli {
namespace {

struct Options {
  pid_t pid = 0;
  bool json = false;
};

int Stats(const Options& options) {
  const OpenProcess process = OpenProcessFor(options.pid);
  nlohmann::ordered_json json = ProcessJson(process.info);
  if (!process.runs_on_this_allocator()) {
    const std::string malloc = OtherAllocator(process.image->Mappings());
    json["allocator"] = malloc;
    if (options.json) {
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("Process {} ({}) runs on {}, not on this TCMalloc. The kernel's figures:\n\n{}",
                 options.pid, process.info.name, malloc, KernelFiguresText(process.info.memory));
    }
    return kOtherMalloc;
  }
  const Target target(*process.image, *process.root);
  json["allocator"] = "tcmalloc";
  json["version"] = process.root->version;
  if (!target.HasHeap()) {
    if (options.json) {
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("Process {} ({}) has not allocated anything yet. The kernel's figures:\n\n{}",
                 options.pid, process.info.name, KernelFiguresText(process.info.memory));
    }
    return kSuccess;
  }
  const Statistics stats = ReadStatistics(target);
  if (options.json) {
    json["settings"] = stats.settings;
    json["unsettled"] = stats.unsettled;
    json.update(StatisticsJson(stats));
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{}", StatisticsText(stats, process.info, process.root->version));
  }
  return kSuccess;
}

}  // namespace

void AddStats(CLI::App& parser, int* status) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      parser.add_subcommand("stats", "Where the memory of a process is, by tier and size class");
  command->add_option("pid", options->pid, "The process")->required();
  command->add_flag("--json", options->json,
                    "The figures of tcmalloc_stats_json, and the kernel's");
  command->callback([options, status] { *status = Stats(*options); });
}

}  // namespace cli
