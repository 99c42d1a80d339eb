// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc ps: the processes of this machine, and the allocator of each. No process is stopped.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "commands/reading_time.h"
#include "heap/statistics.h"
#include "image/process_image.h"
#include "image/text.h"
#include "report/setting_text.h"
#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

struct PsOptions {
  bool all = false;
  bool json = false;
};

struct ProcessRow {
  ProcessInfo info;
  std::string allocator;
  std::optional<Statistics> stats;
  std::string problem;  // why there are no figures
};

// Returns nullopt for a process of the kernel, or one that has ended.
std::optional<ProcessRow> RowOf(pid_t pid) {
  const auto info = ReadProcessInfo(pid);
  if (!info.has_value() || info->is_zombie() || info->memory.resident_bytes == 0) {
    return std::nullopt;
  }
  ProcessRow row{.info = *info};
  try {
    LiveImage image(pid);
    const auto root = FindRoot(image, Search::kNotes);
    if (!root.has_value()) {
      row.allocator = OtherAllocator(image.Mappings());
      return row;
    }
    row.allocator = "TCMalloc " + root->version;
    const Target target(image, *root);
    if (target.HasHeap()) row.stats = ReadStatistics(target);
  } catch (const Failure& failure) {
    row.problem = failure.what();
    if (row.allocator.empty()) row.allocator = "?";
  }
  return row;
}

uint64_t Overhead(const Statistics& stats) {
  return stats.figure("actual_bytes") - stats.figure("in_use_bytes");
}

nlohmann::ordered_json JsonOf(const ProcessRow& row) {
  nlohmann::ordered_json json = ProcessJson(row.info);
  json["allocator"] = row.allocator;
  if (row.stats.has_value()) {
    json["in_use_bytes"] = row.stats->figure("in_use_bytes");
    json["overhead_bytes"] = Overhead(*row.stats);
    json["settings"] = row.stats->settings;
    json["settings_set_while_running"] = SettingChangesJson(*row.stats);
  }
  if (!row.problem.empty()) json["problem"] = row.problem;
  return json;
}

void PrintRow(const ProcessRow& row) {
  std::string notes = row.allocator;
  if (row.stats.has_value()) {
    const std::string settings = SettingsText(*row.stats);
    if (!settings.empty()) notes += "  " + settings;
  }
  fmt::print("{:>8} {:>11} {:>11} {:>11}  {:<16} {}\n", row.info.pid,
             Size(row.info.memory.resident_bytes),
             row.stats.has_value() ? Size(row.stats->figure("in_use_bytes")) : "-",
             row.stats.has_value() ? Size(Overhead(*row.stats)) : "-", row.info.name, notes);
}

int Ps(const PsOptions& options) {
  std::vector<ProcessRow> rows;
  size_t others = 0;
  size_t denied = 0;
  std::string problem;
  ReadingTime time;
  for (const pid_t pid : AllProcesses()) {
    if (pid == getpid()) continue;  // on TCMalloc, too, if the shell exports LD_PRELOAD
    std::optional<ProcessRow> row;
    try {
      row = time.Read(pid, [pid] { return RowOf(pid); });
    } catch (const NoAnswer& failure) {
      const auto info = ReadProcessInfo(pid);
      if (info.has_value()) {
        row = ProcessRow{.info = *info, .allocator = "?", .problem = failure.what()};
      }
    }
    if (!row.has_value()) continue;
    const bool ours = row->allocator.starts_with("TCMalloc ");
    if (row->allocator == "?") {
      ++denied;
      problem = row->problem;
    } else {
      others += !ours;
    }
    if (ours || options.all) rows.push_back(std::move(*row));
  }
  const std::string unread =
      denied == 0 ? ""
                  : fmt::format("{} {} not be read, the last one: {}\n", denied,
                                denied == 1 ? "process could" : "processes could", problem);
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const ProcessRow& row : rows) json.push_back(JsonOf(row));
    fmt::print("{}\n", DumpJson(json));
    if (denied > 0) fmt::print(stderr, "tcmalloc: {}", unread);
    return kSuccess;
  }
  fmt::print("{:>8} {:>11} {:>11} {:>11}  {:<16} {}\n", "PID", "RESIDENT", "IN USE", "OVERHEAD",
             "NAME", "ALLOCATOR AND SETTINGS");
  for (const ProcessRow& row : rows) PrintRow(row);
  if (!options.all && others > 0) {
    fmt::print("{} other {} other allocators: --all lists them.\n", others,
               others == 1 ? "process runs on" : "processes run on");
  }
  fmt::print("{}", unread);
  return kSuccess;
}

}  // namespace

void AddPs(CLI::App& parser, int* status) {
  const auto options = std::make_shared<PsOptions>();
  CLI::App* const command =
      parser.add_subcommand("ps", "The processes of this machine that run on TCMalloc");
  command->add_flag("-a,--all", options->all, "Also processes on other allocators");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] { *status = Ps(*options); });
}

}  // namespace cli
