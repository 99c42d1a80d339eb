// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc profile PROCESS: shows the call sites that hold the memory of a process, by its samples.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "commands/commands.h"
#include "commands/options.h"
#include "commands/profile_switch.h"
#include "commands/read_profile.h"
#include "heap/statistics.h"
#include "image/output.h"
#include "image/symbolizer.h"
#include "image/text.h"
#include "report/flame_graph.h"
#include "report/page.h"
#include "report/profile_formats.h"
#include "report/profile_report.h"
#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

struct ProfileOptions {
  ProcessArgument process;
  std::string output = "-";
  std::string format;
  std::string type = "in-use";
  size_t top = 10;
  double watch_s = 0;
  bool json = false;
  bool no_stop = false;
  ProfileSwitch to_switch;
};

const std::map<std::string, ProfileKind> kTypes = {
    {"in-use", ProfileKind::kInUse},
    {"peak", ProfileKind::kPeak},
    {"allocations", ProfileKind::kAllocations},
};

// The ends of file names, and the formats that they mean.
constexpr std::pair<std::string_view, std::string_view> kSuffixes[] = {
    {".html", "html"}, {".htm", "html"},      {".svg", "svg"},     {".json", "json"},
    {".pb", "pprof"},  {".pb.gz", "pprof"},   {".heap", "legacy"}, {".pprof", "pprof"},
    {".txt", "text"},  {".folded", "folded"},
};

std::string FormatOf(const ProfileOptions& options) {
  if (options.json) return "json";
  if (!options.format.empty()) return options.format;
  if (options.output == "-") return "text";
  for (const auto& [suffix, format] : kSuffixes) {
    if (options.output.ends_with(suffix)) return std::string(format);
  }
  throw Failure(
      fmt::format("--output {}: its name does not say the format (.html, .svg, .pb.gz, .heap, "
                  ".folded, .json, .txt): "
                  "add --format",
                  options.output));
}

// Reads the heap at about 100 moments.
std::vector<TimelinePoint> Watch(OpenProcess& process, double seconds) {
  constexpr int kMoments = 100;
  using Clock = std::chrono::steady_clock;
  const Target target(*process.image, *process.root);
  const auto begin = Clock::now();
  std::vector<TimelinePoint> points;
  for (int i = 0; i <= kMoments; ++i) {
    std::this_thread::sleep_until(begin +
                                  std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds * i / kMoments)));
    const auto info = ReadProcessInfo(process.info.pid);
    if (!info.has_value()) throw Failure(fmt::format("process {} has ended", process.info.pid));
    const Statistics stats = ReadStatistics(target);
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    points.push_back({time.count(), stats.figure("in_use_bytes"), stats.figure("actual_bytes"),
                      info->memory.resident_bytes});
  }
  return points;
}

std::string JsonOf(const ProcessInfo& info, const Profile& profile,
                   const std::vector<CallSite>& sites, const ReadMode& mode,
                   const Symbolizer& symbolizer, const std::string& remark) {
  nlohmann::ordered_json json = ProcessJson(info);
  json["stopped_ms"] = mode.pause_ms;
  json["settled"] = mode.settled;
  json["type"] = KindText(profile.kind);
  json["sampling_interval_bytes"] = profile.interval;
  json["samples"] = TotalSamples(sites);
  json["estimated_bytes"] = static_cast<uint64_t>(TotalBytes(sites) + 0.5);
  json["estimated_objects"] = static_cast<uint64_t>(TotalObjects(sites) + 0.5);
  json["remark"] = remark;
  json["problems"] = symbolizer.Problems();
  json["call_sites"] = CallSitesJson(sites);
  return DumpJson(json) + "\n";
}

// The time at which the samples were in use, in nanoseconds since 1970.
int64_t TimeOf(const OpenProcess& process) {
  if (process.core != nullptr) return process.core->time_ns();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Returns text like /proc/PID/maps, for readers that need addresses and files.
std::string MapsOf(const OpenProcess& process) {
  if (process.core == nullptr) {
    std::ifstream maps(fmt::format("/proc/{}/maps", LivingThread(process.info.pid)));
    std::string text;
    for (std::string line; std::getline(maps, line);) text += CleanText(line) + "\n";
    return text;
  }
  std::string text;
  for (const Mapping& mapping : process.image->Mappings()) {
    // It is unknown whether the mapping is code.
    text += fmt::format("{:08x}-{:08x} r{}xp {:08x} 00:00 0 {}\n", mapping.start, mapping.end,
                        mapping.writable ? 'w' : '-', mapping.file_offset, mapping.name);
  }
  return text;
}

int ShowProfile(const ProfileOptions& options, OpenProcess& process) {
  const std::string format = FormatOf(options);
  ReadMode mode{.stop = !options.no_stop};
  RequireHeap(process);
  std::vector<TimelinePoint> timeline;
  if (options.watch_s > 0) RequireRunning(process, "--watch");
  if (options.watch_s > 0) timeline = Watch(process, options.watch_s);
  const uint64_t held_before = HeldBytes(process);
  const Samples samples = ReadSamplesOf(process, &mode);
  RequireSampling(samples, process.info);
  const ProfileKind kind = kTypes.at(options.type);
  if (kind == ProfileKind::kAllocations && !samples.recording()) {
    throw Failure(fmt::format(
        "{} records no allocations: start that with 'tcmalloc profile --start', or call "
        "StartAllocationProfiling() in the program; --type in-use and --type peak need no "
        "recording",
        process.name()));
  }
  // The heap may change while the samples are read: the smaller of two readings counts.
  const std::string remark = kind == ProfileKind::kInUse
                                 ? ShortfallText(samples, std::min(held_before, HeldBytes(process)))
                                 : std::string();
  Profile profile = MakeProfile(samples, kind);
  profile.time_ns = TimeOf(process);
  Symbolizer symbolizer(process.files, *process.image);
  const NameFrames names = symbolizer.names();
  const std::vector<CallSite> sites = CallSitesOf(profile, names);
  const std::string title =
      fmt::format("{} (process {}): {} requested, {}", process.info.name, process.info.pid,
                  Size(static_cast<uint64_t>(TotalBytes(sites))), KindText(kind));
  const std::string accuracy = AccuracyText(sites, profile.interval);
  std::string out;
  if (format == "json") {
    out = JsonOf(process.info, profile, sites, mode, symbolizer, remark);
  } else if (format == "pprof") {
    out = PprofOf(profile, symbolizer.modules(), ProgramOf(process.info), names);
  } else if (format == "legacy") {
    out = LegacyOf(profile, MapsOf(process));
  } else if (format == "folded") {
    out = FoldedOf(sites);
  } else if (format == "svg") {
    out = FlameGraphOf(sites, fmt::format("{}; {}", title, accuracy));
  } else if (format == "html") {
    std::vector<std::string> notes = symbolizer.Problems();
    if (!remark.empty()) notes.insert(notes.begin(), remark);
    out = HtmlOf({.title = title,
                  .subtitle = accuracy,
                  .notes = notes,
                  .sites = &sites,
                  .timeline = std::move(timeline)});
  } else {
    out = fmt::format("{} at {} call sites ({})\n{}\n{}\n{}\n", title, sites.size(), accuracy,
                      remark.empty() ? "" : remark + "\n", CallSitesText(sites, options.top),
                      HowItWasRead(mode));
  }
  WriteOutput(options.output, out);
  if (format != "json" && format != "text") WarnIfUnsettled(mode);
  if (format != "json" && format != "html") WarnOfMissingNames(symbolizer);
  const bool is_in_report = format == "json" || format == "html" || format == "text";
  if (!remark.empty() && !is_in_report) fmt::print(stderr, "tcmalloc: {}\n", remark);
  if (options.output != "-") {
    fmt::print("{}: {}\n", options.output, title);
  }
  return kSuccess;
}

}  // namespace

void AddProfile(CLI::App& parser, int* status) {
  const auto options = std::make_shared<ProfileOptions>();
  CLI::App* const command =
      parser.add_subcommand("profile", "Which call sites hold the memory of a process");
  AddProcess(command, &options->process);
  command
      ->add_option("-o,--output", options->output,
                   "The file to write; the end of its name says the format: .html, .svg, "
                   ".pb.gz, .heap (legacy: gperftools' text), .folded, .json, .txt")
      ->type_name("FILE");
  command->add_option("--format", options->format, "The format")
      ->check(CLI::IsMember({"text", "pprof", "legacy", "folded", "svg", "html", "json"}));
  command
      ->add_option("--type", options->type,
                   "in-use: now; peak: when most was in use; allocations: since the program began "
                   "to record them")
      ->check(CLI::IsMember({"in-use", "peak", "allocations"}));
  command->add_option("--top", options->top, "How many call sites the text shows")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  command
      ->add_option("--watch", options->watch_s,
                   "First follow the heap for this many seconds, for the page's timeline")
      ->type_name("SECONDS");
  command->add_flag("--no-stop", options->no_stop, kNoStopHelp);
  command->add_flag("--json", options->json, "Print JSON");
  AddProfileSwitch(command, &options->to_switch);
  command->callback([options, status] {
    if (options->to_switch.is_given()) {
      *status = SwitchProfile(options->to_switch, options->process.name, options->json);
      return;
    }
    *status = WithProcess(options->process,
                          [&](OpenProcess& process) { return ShowProfile(*options, process); });
  });
}

}  // namespace cli
