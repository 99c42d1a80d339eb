// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc objects PROCESS: the objects that the program holds.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "commands/options.h"
#include "commands/read_profile.h"
#include "image/symbolizer.h"
#include "image/text.h"
#include "report/profile_report.h"
#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

struct ObjectsOptions {
  ProcessArgument process;
  uint64_t size = 0;
  std::string by = "class";
  bool list = false;
  bool json = false;
  bool no_stop = false;
};

constexpr size_t kMostSites = 20;

struct Sum {
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

// The oldest spans are last. The age of an object is at most that of its span.
constexpr std::pair<int64_t, const char*> kAges[] = {
    {1'000, "less than a second"},    {60'000, "less than a minute"},
    {3'600'000, "less than an hour"}, {86'400'000, "less than a day"},
    {INT64_MAX, "a day and more"},
};

// Keys of objects without a size class. A sampled small object has one.
constexpr uint64_t kLarge = 0;
constexpr uint64_t kGuarded = UINT64_MAX;

uint64_t ClassOf(const SpanInfo& span) {
  if (span.guarded) return kGuarded;
  return span.has_large_object() ? kLarge : span.object_bytes;
}

std::string ClassName(uint64_t key) {
  if (key == kGuarded) return "guarded samples";
  return key == kLarge ? "large" : fmt::format("{} bytes", key);
}

struct Found {
  std::map<uint64_t, Sum> by_class;  // by bytes of an object; kLarge, kGuarded
  std::vector<Sum> by_age = std::vector<Sum>(std::size(kAges));
  std::vector<Object> objects;
  Sum all;
};

void Collect(const HeapObjects& objects, const ObjectsOptions& options, Found* found) {
  constexpr size_t kMostListed = 50'000'000;
  *found = {};
  const Target& target = objects.target();
  const int64_t now = target.NowMs();
  const uint64_t wanted = options.size == 0 ? 0 : objects.ServedBytes(options.size);
  objects.ForEachSpan([&](const SpanInfo& span) {
    if (wanted != 0 && span.object_bytes != wanted) return;
    const uint64_t count = objects.CountInUse(span);
    if (count == 0) return;
    const int64_t age = span.AgeMs(now);
    size_t i = 0;
    while (i + 1 < std::size(kAges) && age >= kAges[i].first) ++i;
    for (Sum* const sum : {&found->all, &found->by_class[ClassOf(span)], &found->by_age[i]}) {
      sum->objects += count;
      sum->bytes += count * span.object_bytes;
    }
    if (!options.list) return;
    if (found->objects.size() + count > kMostListed) {
      throw Failure("there are more than 50 million objects: --size lists those of one size");
    }
    objects.ForEachInUse(span, [&](const Object& object) { found->objects.push_back(object); });
  });
  std::sort(found->objects.begin(), found->objects.end(),
            [](const Object& a, const Object& b) { return a.start < b.start; });
}

std::vector<std::pair<std::string, Sum>> Rows(const Found& found, const ObjectsOptions& options) {
  std::vector<std::pair<std::string, Sum>> rows;
  if (options.by == "age") {
    for (size_t i = 0; i < std::size(kAges); ++i) {
      if (found.by_age[i].objects != 0) rows.emplace_back(kAges[i].second, found.by_age[i]);
    }
    return rows;
  }
  for (const auto& [bytes, sum] : found.by_class) {
    rows.emplace_back(ClassName(bytes), sum);
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.bytes != b.second.bytes ? a.second.bytes > b.second.bytes : a.first < b.first;
  });
  return rows;
}

void PrintJson(const ProcessInfo& info, const Found& found, const ReadMode& mode,
               const ObjectsOptions& options) {
  nlohmann::ordered_json json = ProcessJson(info);
  json["stopped_ms"] = mode.pause_ms;
  json["settled"] = mode.settled;
  json["objects"] = found.all.objects;
  json["bytes"] = found.all.bytes;
  auto& rows = json["by_" + options.by] = nlohmann::ordered_json::array();
  for (const auto& [name, sum] : Rows(found, options)) {
    rows.push_back({{"name", name}, {"objects", sum.objects}, {"bytes", sum.bytes}});
  }
  if (options.list) {
    auto& list = json["list"] = nlohmann::ordered_json::array();
    for (const Object& object : found.objects) list.push_back({object.start, object.bytes});
  }
  fmt::print("{}\n", DumpJson(json));
}

// Only samples have call sites, so the figures are estimates.
int ObjectsBySite(const ObjectsOptions& options, OpenProcess& process) {
  ReadMode mode{.stop = !options.no_stop};
  if (options.list) throw Failure("--list has no call sites: leave out --by site");
  Samples samples = ReadSamplesOf(process, &mode);
  RequireSampling(samples, process.info);
  if (options.size != 0) {
    std::erase_if(samples.samples, [&options](const Sample& sample) {
      return sample.allocated_bytes != options.size;
    });
  }
  const Profile profile = MakeProfile(samples, ProfileKind::kInUse);
  Symbolizer symbolizer(process.files, *process.image);
  const std::vector<CallSite> sites = CallSitesOf(profile, symbolizer.names());
  if (options.json) {
    nlohmann::ordered_json json = ProcessJson(process.info);
    json["stopped_ms"] = mode.pause_ms;
    json["settled"] = mode.settled;
    json["samples"] = TotalSamples(sites);
    json["estimated_objects"] = static_cast<uint64_t>(TotalObjects(sites) + 0.5);
    json["estimated_bytes"] = static_cast<uint64_t>(TotalBytes(sites) + 0.5);
    json["by_site"] = CallSitesJson(sites);
    fmt::print("{}\n", DumpJson(json));
    return kSuccess;
  }
  fmt::print("Process {} ({}) holds about {:.0f} objects, {} requested ({})\n\n{}\n{}\n",
             process.info.pid, process.info.name, TotalObjects(sites),
             Size(static_cast<uint64_t>(TotalBytes(sites))), AccuracyText(sites, profile.interval),
             CallSitesText(sites, kMostSites), HowItWasRead(mode));
  WarnOfMissingNames(symbolizer);
  return kSuccess;
}

int Objects(const ObjectsOptions& options, OpenProcess& process) {
  RequireHeap(process);
  if (options.by == "site") return ObjectsBySite(options, process);
  ReadMode mode{.stop = !options.no_stop};
  Found found;
  WithObjects(process, &mode,
              [&](const HeapObjects& objects) { Collect(objects, options, &found); });
  if (options.json) {
    PrintJson(process.info, found, mode, options);
    return kSuccess;
  }
  if (options.list) {
    WarnIfUnsettled(mode);
    for (const Object& object : found.objects) {
      fmt::print("{:#x} {}\n", object.start, object.bytes);
    }
    return kSuccess;
  }
  fmt::print("Process {} ({}) holds {} objects of {} in all\n\n", process.info.pid,
             process.info.name, found.all.objects, Size(found.all.bytes));
  for (const auto& [name, sum] : Rows(found, options)) {
    fmt::print("  {:>11}  {:>6}  {:>12} objects  {}\n", Size(sum.bytes),
               Share(sum.bytes, found.all.bytes), sum.objects, name);
  }
  fmt::print("\n{}\n", HowItWasRead(mode));
  return kSuccess;
}

}  // namespace

void AddObjects(CLI::App& parser, int* status) {
  const auto options = std::make_shared<ObjectsOptions>();
  CLI::App* const command = parser.add_subcommand(
      "objects", "The objects that a process holds, by size, age or call site");
  AddProcess(command, &options->process);
  command->add_option("--size", options->size, "Only objects that the heap makes for this size")
      ->type_name("BYTES");
  command
      ->add_option("--by", options->by,
                   "class: by size of objects; age: by age of their spans; site: by call site, "
                   "as far as they are sampled")
      ->check(CLI::IsMember({"class", "age", "site"}));
  command->add_flag("--list", options->list, "Address and size of each object");
  command->add_flag("--no-stop", options->no_stop, kNoStopHelp);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] {
    *status = WithProcess(options->process,
                          [&](OpenProcess& process) { return Objects(*options, process); });
  });
}

}  // namespace cli
