// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc run PROGRAM: runs a program on this allocator, and prints the use of its memory at its
// end. If it guards samples, it also prints the misuse of one that ended the program.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands/at_end.h"
#include "commands/commands.h"
#include "commands/fault_watch.h"
#include "commands/find_library.h"
#include "commands/options.h"
#include "commands/read_profile.h"
#include "commands/setting_names.h"
#include "image/output.h"
#include "image/text.h"
#include "image/traced_child.h"
#include "report/flame_graph.h"
#include "report/profile_report.h"
#include "report/table.h"

namespace cli {
namespace {

struct RunOptions {
  std::string library;
  bool minimal = false;
  std::string json_file;
  std::vector<std::string> settings;
  std::string flame_file;
  bool children = false;
  bool quiet = false;
};

// Mean bytes between samples, unless a setting says otherwise.
constexpr char kSampling[] = "TCMALLOC_SAMPLE_PARAMETER=524288";

std::string LibraryFor(const RunOptions& options) {
  if (!options.library.empty()) return CheckLibrary(options.library);
  return FindLibrary(options.minimal ? "libtcmalloc_minimal.so.4" : "libtcmalloc.so.4");
}

// The minimal library takes no samples, and would print that it ignores the setting.
bool TakesSamples(const std::string& library) {
  const std::string file = std::filesystem::canonical(library).filename();
  return file.find("_minimal") == std::string::npos;
}

// The library has a line for a wrong variable only where the name is like those of its own.
void RequireSetting(const std::string& assignment, const std::string& as_given) {
  const std::string name = assignment.substr(0, assignment.find('='));
  if (IsSetting(name)) return;
  const std::string nearest = NearestSetting(name);
  throw Failure(fmt::format("run --set {}: there is no setting {}{}", as_given, name,
                            nearest.empty() ? "; docs/settings.md lists all"
                                            : fmt::format("; did you mean {}?", nearest)));
}

std::vector<std::string> EnvironmentFor(const RunOptions& options) {
  std::vector<std::string> environment;
  const std::string library = LibraryFor(options);
  std::string preload = "LD_PRELOAD=" + library;
  if (const char* const before = getenv("LD_PRELOAD"); before != nullptr && *before != '\0') {
    preload += fmt::format(":{}", before);
  }
  environment.push_back(std::move(preload));
  if (getenv("TCMALLOC_SAMPLE_PARAMETER") == nullptr && TakesSamples(library)) {
    environment.emplace_back(kSampling);
  }
  for (const std::string& setting : options.settings) {
    environment.push_back(VariableOf("--set", setting));
    RequireSetting(environment.back(), setting);
  }
  return environment;
}

// Returns the value that the program will find: the last one that is set.
std::string ValueOf(const std::string& name, const std::vector<std::string>& environment) {
  const char* const before = getenv(name.c_str());
  std::string value = before == nullptr ? "" : before;
  for (const std::string& assignment : environment) {
    if (assignment.starts_with(name + "=")) value = assignment.substr(name.size() + 1);
  }
  return value;
}

bool GuardsSamples(const std::vector<std::string>& environment) {
  const std::string value = ValueOf("TCMALLOC_GUARDED_SAMPLE", environment);
  return !value.empty() && value != "0";
}

// The library makes no leak check in a program that is traced. Without this refusal, a program that
// leaks would seem to have passed the check.
void RefuseLeakCheck(const std::vector<std::string>& environment) {
  const std::string mode = ValueOf("HEAPCHECK", environment);
  if (mode.empty() || mode == "local") return;
  const std::string traced_too = ValueOf("HEAP_CHECK_RUN_UNDER_GDB", environment);
  if (!traced_too.empty() && traced_too != "0") return;
  throw Failure(
      fmt::format("run: HEAPCHECK={} checks nothing in a program that is traced: run it without "
                  "'tcmalloc run', by HEAPCHECK={} LD_PRELOAD=/path/to/libtcmalloc.so.4",
                  mode, mode));
}

// The signals by which programs end after a fault; SIGABRT if a handler of the program aborts.
bool IsOfCrash(int signal) { return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT; }

// If there are several processes, reports the one with the highest peak.
void KeepLarger(pid_t pid, AtEnd* largest) {
  const auto peak = [](const AtEnd& of) {
    return of.stats.has_value() ? of.info->memory.peak_resident_bytes : 0;
  };
  AtEnd end = LookAt(pid, peak(*largest));
  if (!largest->info.has_value() || peak(end) > peak(*largest)) *largest = std::move(end);
}

void WriteJson(const std::string& path, const AtEnd& end, int exit_status) {
  nlohmann::ordered_json json = AtEndJson(end);
  json["exit_status"] = exit_status;
  WriteOutput(path, DumpJson(json) + "\n");
}

void WriteFlameGraph(const std::string& path, const AtEnd& end) {
  if (end.sites_at_peak.empty()) {
    fmt::print(stderr, "tcmalloc: no flame graph: {}\n",
               end.problem.empty() ? "the program has no samples" : end.problem);
    return;
  }
  WriteOutput(
      path, FlameGraphOf(end.sites_at_peak,
                         fmt::format("{}: {} requested, in use at the peak", end.info->name,
                                     Size(static_cast<uint64_t>(TotalBytes(end.sites_at_peak))))));
}

int Run(const RunOptions& options, const std::vector<std::string>& command) {
  if (command.empty()) throw Failure("run: name the program: tcmalloc run PROGRAM [ARGUMENTS]");
  AtEnd end;
  FaultWatch faults;
  const std::vector<std::string> environment = EnvironmentFor(options);
  RefuseLeakCheck(environment);
  TraceEvents events = {.at_end = [&](pid_t pid) {
    faults.AtEnd(pid);
    KeepLarger(pid, &end);
  }};
  // In programs without guarded samples only the first thread is traced.
  if (GuardsSamples(environment)) {
    events.at_fault = [&](pid_t pid, const ThreadRegisters& thread) {
      faults.AtFault(pid, thread);
    };
    events.at_exec = [&](pid_t pid) { faults.AtExec(pid); };
    events.killed = [&](pid_t pid, int signal) {
      const std::string report = faults.TakeReport(pid);
      if (IsOfCrash(signal)) fmt::print(stderr, "{}", report);
    };
  }
  const int status = RunTraced(command, environment,
                               options.children ? Children::kFollow : Children::kIgnore, events);
  if (!options.quiet) fmt::print(stderr, "{}", AtEndText(end, command[0]));
  if (!options.json_file.empty()) WriteJson(options.json_file, end, status);
  if (!options.flame_file.empty()) WriteFlameGraph(options.flame_file, end);
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
    const bool has_value =
        *at == "--set" || *at == "--library" || *at == "--json" || *at == "--flame";
    if (has_value && std::next(at) != arguments->end()) ++at;
  }
}

void AddRun(CLI::App& parser, int* status) {
  const auto options = std::make_shared<RunOptions>();
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
  command
      ->add_option("--flame", options->flame_file,
                   "Write a flame graph of the peak of use to this SVG file")
      ->type_name("FILE");
  command->add_flag("-q,--quiet", options->quiet, "Print no summary");
  command->prefix_command();
  command->callback([options, status, command] { *status = Run(*options, command->remaining()); });
}

}  // namespace cli
