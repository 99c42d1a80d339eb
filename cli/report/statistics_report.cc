// SPDX-License-Identifier: BSD-3-Clause
#include "report/statistics_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "report/setting_text.h"
#include "report/table.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

void Line(std::string* out, uint64_t bytes, uint64_t whole, std::string_view what) {
  fmt::format_to(std::back_inserter(*out), "  {:>11}  {:>6}  {}\n", Size(bytes),
                 Share(bytes, whole), what);
}

void WriteClasses(const Statistics& stats, std::string* out) {
  const auto to = std::back_inserter(*out);
  fmt::format_to(to, "\n{:>10} {:>10} {:>12} {:>12} {:>12} {:>12} {:>6}\n", "object", "spans",
                 "in use", "in caches", "free", "memory", "used");
  for (const SizeClassStatistics& c : stats.classes) {
    if (!c.any()) continue;
    const uint64_t memory = c.memory_bytes();
    fmt::format_to(to, "{:>10} {:>10} {:>12} {:>12} {:>12} {:>12} {:>6}\n", c.object_bytes, c.spans,
                   c.in_use_objects, c.cached_objects, c.central_objects, Size(memory),
                   Share(c.in_use_objects * c.object_bytes, memory));
  }
}

void WriteKernelFigures(const ProcessInfo& info, uint64_t backed, std::string* out) {
  const auto to = std::back_inserter(*out);
  if (!info.has_kernel_figures) {
    fmt::format_to(to, "\n  A core does not say how much of it was resident.\n");
    return;
  }
  const uint64_t anonymous = info.memory.anonymous_bytes;
  fmt::format_to(to, "\n  {:>11}  resident memory of the process, of it {} anonymous\n",
                 Size(info.memory.resident_bytes), Size(anonymous));
  // The difference may be negative: not all of the heap's memory was touched, and the process has
  // other memory.
  if (anonymous >= backed) {
    fmt::format_to(to, "  {:>11}  anonymous, not the heap's\n", Size(anonymous - backed));
  } else {
    fmt::format_to(to, "  {:>11}  of the heap was never touched, or is swapped out\n",
                   Size(backed - anonymous));
  }
}

}  // namespace

Json StatisticsJson(const Statistics& stats) {
  Json json = Json::object();
  for (const auto& [name, value] : stats.figures) json[name] = value;
  json["hugepages"] = {{"mode", stats.hugepage_mode}};
  Json& classes = json["size_classes"] = Json::array();
  for (const SizeClassStatistics& c : stats.classes) {
    if (!c.any()) continue;
    classes.push_back({{"object_size_bytes", c.object_bytes},
                       {"spans", c.spans},
                       {"in_use_objects", c.in_use_objects},
                       {"thread_cache_objects", c.cached_objects},
                       {"central_cache_objects", c.central_objects}});
  }
  Json& lengths = json["free_spans_by_length"] = Json::array();
  for (size_t i = 0; i < stats.free_spans.size(); ++i) {
    const FreeSpanStatistics& count = stats.free_spans[i];
    if (count.backed == 0 && count.released == 0) continue;
    lengths.push_back(
        {{"pages", i + 1}, {"free_spans", count.backed}, {"released_spans", count.released}});
  }
  json["longer_free_spans"] = {{"more_than_pages", stats.free_spans.size()},
                               {"free_spans", stats.longer.backed},
                               {"released_spans", stats.longer.released},
                               {"free_bytes", stats.longer_backed_bytes},
                               {"released_bytes", stats.longer_released_bytes}};
  return json;
}

Json ProcessJson(const ProcessInfo& info) {
  Json json = {{"pid", info.pid},
               {"name", info.name},
               {"program", info.executable},
               {"threads", info.threads}};
  if (!info.file.empty()) json["file"] = info.file;
  if (!info.has_kernel_figures) return json;
  json.update({{"process_resident_bytes", info.memory.resident_bytes},
               {"process_anonymous_bytes", info.memory.anonymous_bytes},
               {"process_swapped_bytes", info.memory.swapped_bytes},
               {"process_peak_resident_bytes", info.memory.peak_resident_bytes}});
  return json;
}

std::string KernelFiguresText(const KernelFigures& memory) {
  return fmt::format(
      "  {:>11}  resident\n  {:>11}  of it anonymous\n  {:>11}  swapped out\n"
      "  {:>11}  most resident so far\n",
      Size(memory.resident_bytes), Size(memory.anonymous_bytes), Size(memory.swapped_bytes),
      Size(memory.peak_resident_bytes));
}

std::string StatisticsText(const Statistics& stats, const ProcessInfo& info,
                           const std::string& version) {
  const uint64_t backed = stats.figure("actual_bytes");
  std::string out =
      fmt::format("Process {}, {}, TCMalloc {}: the program holds {}{}\n\n", info.pid, info.name,
                  version, Size(stats.figure("in_use_bytes")),
                  info.has_kernel_figures ? ", " + Size(info.memory.resident_bytes) + " resident"
                                          : std::string());
  Line(&out, stats.figure("in_use_bytes"), backed, "in objects that the program holds");
  Line(&out, stats.figure("thread_cache_free_bytes"), backed, "free, in thread caches");
  Line(&out, stats.figure("central_cache_free_bytes"), backed,
       "free, in pages that also hold objects in use");
  Line(&out, stats.figure("page_heap_free_bytes"), backed, "in free pages");
  Line(&out, stats.figure("metadata_bytes"), backed, "in the allocator's own records");
  Line(&out, backed, backed, "all memory of the heap that may be backed");
  WriteKernelFigures(info, backed, &out);
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "  {:>11}  address space of the heap without memory\n",
                 Size(stats.figure("released_bytes")));
  const std::string settings = SettingsText(stats);
  if (!settings.empty()) fmt::format_to(to, "\nSettings: {}\n", settings);
  if (stats.unsettled) {
    fmt::format_to(to, "\n{}: figures are of different moments.\n",
                   info.file.empty() ? "The heap changed at every try to read it"
                                     : "The heap was changing when the file was written");
  }
  WriteClasses(stats, &out);
  return out;
}

}  // namespace cli
