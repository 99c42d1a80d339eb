// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc run PROGRAM: runs a program on this allocator, and prints where its memory was at its
// end.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "heap/statistics.h"
#include "image/traced_child.h"
#include "report/sizes.h"
#include "report/statistics_report.h"

namespace cli {
namespace {

struct Options {
  std::string library;
  bool minimal = false;
  std::string json_file;
  std::vector<std::string> settings;
  bool children = false;
  bool quiet = false;
};

constexpr size_t kWorstClasses = 5;

// The library that was built or installed with this program, else the system's.
std::string FindLibrary(const Options& options) {
  if (!options.library.empty()) {
    if (!std::filesystem::exists(options.library)) {
      throw Failure(fmt::format("there is no library {}", options.library));
    }
    return std::filesystem::absolute(options.library);
  }
  const std::string name = options.minimal ? "libtcmalloc_minimal.so.4" : "libtcmalloc.so.4";
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path prefix = self.parent_path().parent_path();
  std::vector<std::filesystem::path> folders = {prefix / "lib", prefix / "lib64"};
  if (std::filesystem::is_directory(prefix / "lib", error)) {
    for (const auto& entry : std::filesystem::directory_iterator(prefix / "lib", error)) {
      if (entry.path().string().ends_with("-linux-gnu")) folders.push_back(entry.path());
    }
  }
  for (const auto& folder : folders) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  return name;  // the dynamic linker looks for it
}

// The variable and value of a setting "name=value"; names in capitals are variables as they are.
std::string VariableOf(const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Failure(fmt::format("--set {}: write NAME=VALUE, for example release_rate=10", setting));
  }
  std::string name = setting.substr(0, equals);
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return islower(c) != 0; })) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(toupper(c)); });
    name = "TCMALLOC_" + name;
  }
  return name + setting.substr(equals);
}

std::vector<std::string> EnvironmentFor(const Options& options) {
  std::vector<std::string> environment;
  std::string preload = "LD_PRELOAD=" + FindLibrary(options);
  if (const char* const before = getenv("LD_PRELOAD"); before != nullptr && *before != '\0') {
    preload += fmt::format(":{}", before);
  }
  environment.push_back(std::move(preload));
  for (const std::string& setting : options.settings) environment.push_back(VariableOf(setting));
  return environment;
}

struct AtEnd {
  std::optional<ProcessInfo> info;
  std::optional<Statistics> stats;
  std::string version;
  std::string problem;
};

AtEnd LookAt(pid_t pid) {
  AtEnd end;
  try {
    const OpenProcess process = OpenProcessFor(pid);
    end.info = process.info;
    if (!process.runs_on_this_allocator()) {
      end.problem = fmt::format(
          "it ran on {}: the library was not loaded (a static or setuid "
          "program, or one that ignores LD_PRELOAD)",
          OtherAllocator(process.image->Mappings()));
      return end;
    }
    end.version = process.root->version;
    const Target target(*process.image, *process.root);
    if (target.HasHeap()) {
      end.stats = ReadStatistics(target);
    } else {
      end.problem = "it allocated nothing";
    }
  } catch (const Failure& failure) {
    end.problem = failure.what();
  }
  return end;
}

// Of several processes the one with the highest peak is reported.
void KeepLarger(AtEnd end, AtEnd* largest) {
  const auto peak = [](const AtEnd& of) {
    return of.stats.has_value() ? of.info->memory.peak_resident_bytes : 0;
  };
  if (!largest->info.has_value() || peak(end) > peak(*largest)) *largest = std::move(end);
}

uint64_t Unused(const SizeClassStatistics& c) {
  const uint64_t used = c.in_use_objects * c.object_bytes;
  const uint64_t memory = c.spans * c.span_bytes;
  return memory > used ? memory - used : 0;
}

std::string SummaryText(const AtEnd& end, const std::vector<std::string>& command) {
  if (!end.info.has_value() || !end.stats.has_value()) {
    return fmt::format(
        "tcmalloc run: no figures of {}: {}\n", command[0],
        end.problem.empty() ? "the system does not permit to trace it" : end.problem);
  }
  const Statistics& stats = *end.stats;
  std::string out = fmt::format(
      "\ntcmalloc run: {} (process {}) at its end: {} held by the program, {} resident, {} at its "
      "peak\n",
      end.info->name, end.info->pid, Size(stats.figure("in_use_bytes")),
      Size(end.info->memory.resident_bytes), Size(end.info->memory.peak_resident_bytes));
  out += fmt::format(
      "  free: {} in thread caches, {} between objects, {} in free pages; {} of records\n",
      Size(stats.figure("thread_cache_free_bytes")), Size(stats.figure("central_cache_free_bytes")),
      Size(stats.figure("page_heap_free_bytes")), Size(stats.figure("metadata_bytes")));
  std::vector<SizeClassStatistics> classes = stats.classes;
  std::sort(classes.begin(), classes.end(),
            [](const auto& a, const auto& b) { return Unused(a) > Unused(b); });
  out += "  sizes with the most unused memory in their pages:\n";
  for (size_t i = 0; i < std::min(kWorstClasses, classes.size()); ++i) {
    if (Unused(classes[i]) == 0) break;
    out += fmt::format("    {:>6} bytes: {:>10} of {}\n", classes[i].object_bytes,
                       Size(Unused(classes[i])), Size(classes[i].spans * classes[i].span_bytes));
  }
  return out;
}

void WriteJson(const std::string& path, const AtEnd& end, int exit_status) {
  nlohmann::ordered_json json =
      end.info.has_value() ? ProcessJson(*end.info) : nlohmann::ordered_json::object();
  json["exit_status"] = exit_status;
  if (!end.problem.empty()) json["problem"] = end.problem;
  if (end.stats.has_value()) {
    json["version"] = end.version;
    json["settings"] = end.stats->settings;
    json.update(StatisticsJson(*end.stats));
  }
  std::ofstream file(path);
  file << json.dump() << "\n";
  if (!file.flush()) throw Failure(fmt::format("cannot write {}", path));
}

int Run(const Options& options, const std::vector<std::string>& command) {
  if (command.empty()) throw Failure("run: name the program: tcmalloc run PROGRAM [ARGUMENTS]");
  AtEnd end;
  const int status = RunTraced(command, EnvironmentFor(options),
                               options.children ? Children::kFollow : Children::kIgnore,
                               [&end](pid_t pid) { KeepLarger(LookAt(pid), &end); });
  if (!options.quiet) fmt::print(stderr, "{}", SummaryText(end, command));
  if (!options.json_file.empty()) WriteJson(options.json_file, end, status);
  return status;
}

}  // namespace

void RemoveSeparatorOfRun(std::vector<std::string>* arguments) {
  if (arguments->empty() || arguments->front() != "run") return;
  for (auto at = arguments->begin() + 1; at != arguments->end(); ++at) {
    if (*at == "--") {
      arguments->erase(at);
      return;
    }
    if (at->empty() || (*at)[0] != '-') return;  // the program
    const bool has_value = *at == "--set" || *at == "--library" || *at == "--json";
    if (has_value && std::next(at) != arguments->end()) ++at;
  }
}

void AddRun(CLI::App& parser, int* status) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = parser.add_subcommand(
      "run", "Run a program on TCMalloc and print where its memory was at its end");
  command->add_option("--set", options->settings, "A setting, for example --set release_rate=10")
      ->type_name("NAME=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--library", options->library, "The library to load")->type_name("FILE");
  command->add_flag("--children", options->children,
                    "Also look at its children, and report the process with the highest peak");
  command->add_flag("--minimal", options->minimal, "Load libtcmalloc_minimal.so.4");
  command->add_option("--json", options->json_file, "Write the figures to this file")
      ->type_name("FILE");
  command->add_flag("-q,--quiet", options->quiet, "Print no summary");
  command->prefix_command();
  command->callback([options, status, command] { *status = Run(*options, command->remaining()); });
}

}  // namespace cli
