// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc run PROGRAM: runs a program on this allocator, and prints where its memory was at its
// end.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
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
#include "commands/read_profile.h"
#include "image/traced_child.h"
#include "report/flame_graph.h"
#include "report/profile_report.h"
#include "report/sizes.h"

namespace cli {
namespace {

struct Options {
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

// The minimal library would say that it ignores the setting.
bool TakesSamples(const std::string& library) {
  std::error_code error;  // then it is a name that the dynamic linker looks for
  const std::filesystem::path file = std::filesystem::canonical(library, error);
  return (error ? library : file.filename().string()).find("_minimal") == std::string::npos;
}

std::vector<std::string> EnvironmentFor(const Options& options) {
  std::vector<std::string> environment;
  const std::string library = FindLibrary(options);
  std::string preload = "LD_PRELOAD=" + library;
  if (const char* const before = getenv("LD_PRELOAD"); before != nullptr && *before != '\0') {
    preload += fmt::format(":{}", before);
  }
  environment.push_back(std::move(preload));
  if (getenv("TCMALLOC_SAMPLE_PARAMETER") == nullptr && TakesSamples(library)) {
    environment.emplace_back(kSampling);
  }
  for (const std::string& setting : options.settings) environment.push_back(VariableOf(setting));
  return environment;
}

// Of several processes the one with the highest peak is reported.
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
                         fmt::format("{}: {} in use at the peak", end.info->name,
                                     Size(static_cast<uint64_t>(TotalBytes(end.sites_at_peak))))));
}

int Run(const Options& options, const std::vector<std::string>& command) {
  if (command.empty()) throw Failure("run: name the program: tcmalloc run PROGRAM [ARGUMENTS]");
  AtEnd end;
  const int status = RunTraced(command, EnvironmentFor(options),
                               options.children ? Children::kFollow : Children::kIgnore,
                               [&end](pid_t pid) { KeepLarger(pid, &end); });
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
  command
      ->add_option("--flame", options->flame_file,
                   "Write a flame graph of the peak of use to this SVG file")
      ->type_name("FILE");
  command->add_flag("-q,--quiet", options->quiet, "Print no summary");
  command->prefix_command();
  command->callback([options, status, command] { *status = Run(*options, command->remaining()); });
}

}  // namespace cli
