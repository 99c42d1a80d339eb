// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc stats PROCESS: shows the use of the memory. The process is never stopped.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "commands/options.h"
#include "heap/statistics.h"
#include "image/text.h"
#include "report/setting_text.h"
#include "report/statistics_report.h"

namespace cli {
namespace {

struct StatsOptions {
  ProcessArgument process;
  bool json = false;
};

// Returns the kernel's figures, for a process without figures of a heap.
std::string KernelText(const OpenProcess& process, const std::string& what) {
  const ProcessInfo& info = process.info;
  const std::string text = fmt::format("Process {} ({}) {}. ", info.pid, info.name, what);
  if (!info.has_kernel_figures) return text + "A core has no figures of the kernel.\n";
  return text + "The kernel's figures:\n\n" + KernelFiguresText(info.memory);
}

int Stats(const StatsOptions& options, const OpenProcess& process) {
  nlohmann::ordered_json json = ProcessJson(process.info);
  if (!process.runs_on_this_allocator()) {
    const std::string malloc = OtherAllocator(process.image->Mappings());
    json["allocator"] = malloc;
    if (options.json) {
      fmt::print("{}\n", DumpJson(json));
    } else {
      fmt::print("{}",
                 KernelText(process, fmt::format("runs on {}, not on this TCMalloc", malloc)));
    }
    return kOtherMalloc;
  }
  const Target target(*process.image, *process.root);
  json["allocator"] = "tcmalloc";
  json["version"] = process.root->version;
  if (!target.HasHeap()) {
    if (options.json) {
      fmt::print("{}\n", DumpJson(json));
    } else {
      fmt::print("{}", KernelText(process, "has not allocated anything yet"));
    }
    return kSuccess;
  }
  const Statistics stats = ReadStatistics(target);
  if (options.json) {
    json["settings"] = stats.settings;
    json["settings_set_while_running"] = SettingChangesJson(stats);
    json["unsettled"] = stats.unsettled;
    json.update(StatisticsJson(stats));
    fmt::print("{}\n", DumpJson(json));
  } else {
    fmt::print("{}", StatisticsText(stats, process.info, process.root->version));
  }
  return kSuccess;
}

}  // namespace

void AddStats(CLI::App& parser, int* status) {
  const auto options = std::make_shared<StatsOptions>();
  CLI::App* const command =
      parser.add_subcommand("stats", "Where the memory of a process is, by tier and size class");
  AddProcess(command, &options->process);
  command->add_flag("--json", options->json,
                    "The figures of tcmalloc_stats_json, and the kernel's");
  command->callback([options, status] {
    *status = WithProcess(options->process,
                          [&](const OpenProcess& process) { return Stats(*options, process); });
  });
}

}  // namespace cli
