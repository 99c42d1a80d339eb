// SPDX-License-Identifier: BSD-3-Clause
#include "report/top_data.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "report/sizes.h"

namespace cli {
namespace {

Cell Bytes(uint64_t bytes) { return {Size(bytes), static_cast<double>(bytes)}; }

Cell Number(uint64_t number) { return {std::to_string(number), static_cast<double>(number)}; }

Cell Text(const std::string& text) { return {Printable(text)}; }

Cell Rate(std::optional<double> bytes_per_second) {
  if (!bytes_per_second.has_value()) return {"-"};
  const double rate = *bytes_per_second;
  const auto whole = static_cast<uint64_t>(std::min(std::fabs(rate), 1e18));
  return {(rate < 0 ? "-" : "+") + Size(whole) + "/s", rate};
}

// Returns the bytes that the process needs for each byte that it holds.
std::string Ratio(uint64_t whole, uint64_t part) {
  if (part == 0) return "-";
  return fmt::format("{:.2f}", static_cast<double>(whole) / static_cast<double>(part));
}

Table ThreadTable(const ProcessView& view) {
  Table table{
      .name = "threads",
      .columns = {{"CACHED", true}, {"LIMIT", true}, {"OBJECTS", true}, {"TID", true}, {"THREAD"}}};
  for (const ThreadRow& thread : view.threads) {
    const CacheInfo& cache = thread.cache;
    std::string name = thread.name;
    if (cache.holder == CacheHolder::kNobody) name = "(no thread: kept for the next one)";
    if (cache.holder == CacheHolder::kOrphan) name = "(a thread of the parent process)";
    if (name.empty()) name = "(running)";
    const Cell tid = cache.thread == 0 ? Cell{"-"} : Number(static_cast<uint64_t>(cache.thread));
    table.rows.push_back(
        {fmt::format("{:#x}", cache.address),
         {Bytes(cache.bytes), Bytes(cache.limit_bytes), Number(cache.objects), tid, Text(name)}});
  }
  return table;
}

Table ClassTable(const Statistics& stats) {
  Table table{.name = "size classes",
              .columns = {{"MEMORY", true},
                          {"IN USE", true},
                          {"CACHED", true},
                          {"FREE", true},
                          {"USED", true},
                          {"OBJECT", true}}};
  for (const SizeClassStatistics& c : stats.classes) {
    if (c.spans == 0) continue;
    const uint64_t memory = c.spans * c.span_bytes;
    const uint64_t in_use = c.in_use_objects * c.object_bytes;
    const double part = memory == 0 ? 0 : static_cast<double>(in_use) / static_cast<double>(memory);
    table.rows.push_back({std::to_string(c.object_bytes),
                          {Bytes(memory),
                           Bytes(in_use),
                           Bytes(c.cached_objects * c.object_bytes),
                           Bytes(c.central_objects * c.object_bytes),
                           {Share(in_use, memory), part},
                           Number(c.object_bytes)}});
  }
  return table;
}

// Makes the table of call sites, each named by the function that the program's author knows, and
// its callers.
Table SiteTable(const std::vector<CallSite>& sites) {
  Table table{
      .name = "call sites",
      .columns = {
          {"IN USE", true}, {"OBJECTS", true}, {"SAMPLES", true}, {"FUNCTION"}, {"CALLER"}}};
  for (size_t i = 0; i < sites.size(); ++i) {
    const CallSite& site = sites[i];
    const size_t own = OwnFrame(site);
    std::vector<std::string> names(2);
    for (size_t n = 0; n < names.size() && own + n < site.frames.size(); ++n) {
      const SourceFrame& frame = *site.frames[own + n];
      names[n] = frame.function;
      const std::string source = SourceOf(frame);
      if (!source.empty()) names[n] += fmt::format(" ({})", source);
    }
    std::string id;
    for (const Address address : site.stack) id += fmt::format("{:x} ", address);
    table.rows.push_back(
        {std::move(id),
         {Bytes(static_cast<uint64_t>(site.bytes)), Number(static_cast<uint64_t>(site.objects)),
          Number(site.samples), Text(names[0]), Text(names[1])}});
  }
  return table;
}

History HistoryOf(const ProcessView& view, const char* name,
                  uint64_t (*bytes)(const ProcessFigures&)) {
  History history{.name = name};
  for (const ProcessFigures& figures : view.history) history.bytes.push_back(bytes(figures));
  return history;
}

std::string RatesText(const ProcessView& view) {
  std::string text = fmt::format("growth {}", Rate(GrowthPerSecond(view)).text);
  if (const auto rate = AllocatedPerSecond(view)) {
    return text + fmt::format(", allocates about {}/s", Size(static_cast<uint64_t>(*rate)));
  }
  if (view.samples.has_value() && view.samples->interval == 0) {
    text += "; TCMALLOC_SAMPLE_PARAMETER=524288 at its start would show call sites";
  }
  return text;
}

}  // namespace

std::optional<double> GrowthPerSecond(const ProcessView& view) {
  if (!view.before.has_value() || !view.now.stats.has_value() || !view.before->stats.has_value()) {
    return std::nullopt;
  }
  const int64_t ms = view.now.time_ms - view.before->time_ms;
  if (ms <= 0) return std::nullopt;
  const double bytes = static_cast<double>(view.now.figure("in_use_bytes")) -
                       static_cast<double>(view.before->figure("in_use_bytes"));
  return bytes * 1000 / static_cast<double>(ms);
}

std::optional<double> AllocatedPerSecond(const ProcessView& view) {
  if (!view.samples.has_value() || !view.samples_before.has_value()) return std::nullopt;
  const SampleCount& now = *view.samples;
  const SampleCount& before = *view.samples_before;
  const int64_t ms = now.time_ms - before.time_ms;
  if (now.interval == 0 || now.interval != before.interval || ms <= 0 ||
      now.samples < before.samples) {
    return std::nullopt;
  }
  return static_cast<double>(now.samples - before.samples) * static_cast<double>(now.interval) *
         1000 / static_cast<double>(ms);
}

TopData DataOfProcesses(const std::vector<ProcessView>& processes) {
  Table table{.name = "processes",
              .columns = {{"RESIDENT", true},
                          {"IN USE", true},
                          {"OVERHEAD", true},
                          {"GROWTH", true},
                          {"THREADS", true},
                          {"PID", true},
                          {"NAME"}}};
  uint64_t resident = 0;
  uint64_t in_use = 0;
  for (const ProcessView& view : processes) {
    const ProcessFigures& now = view.now;
    resident += now.info.memory.resident_bytes;
    in_use += now.figure("in_use_bytes");
    table.rows.push_back(
        {std::to_string(now.info.pid),
         {Bytes(now.info.memory.resident_bytes), Bytes(now.figure("in_use_bytes")),
          Bytes(now.overhead_bytes()), Rate(GrowthPerSecond(view)), Number(now.info.threads),
          Number(static_cast<uint64_t>(now.info.pid)), Text(now.info.name)}});
  }
  TopData data{.opens_rows = true};
  data.summary.push_back(fmt::format("{} processes on TCMalloc: {} resident, {} in use",
                                     processes.size(), Size(resident), Size(in_use)));
  data.tables.push_back(std::move(table));
  return data;
}

TopData DataOfProcess(const ProcessView& view) {
  const ProcessFigures& now = view.now;
  TopData data;
  data.summary.push_back(
      fmt::format("{}, process {}, {} threads, {}", now.info.name, now.info.pid, now.info.threads,
                  view.version.empty() ? view.allocator : "TCMalloc " + view.version));
  const uint64_t resident = now.info.memory.resident_bytes;
  if (!now.stats.has_value()) {
    data.summary.push_back(fmt::format("{} resident, {} anonymous; no figures of a heap",
                                       Size(resident), Size(now.info.memory.anonymous_bytes)));
  } else {
    const uint64_t in_use = now.figure("in_use_bytes");
    data.summary.push_back(fmt::format(
        "{} resident, {} in use, {} overhead, {} resident for each byte in use", Size(resident),
        Size(in_use), Size(now.overhead_bytes()), Ratio(resident, in_use)));
    data.summary.push_back(fmt::format(
        "free: {} in thread caches, {} in spans in use, {} in free pages",
        Size(now.figure("thread_cache_free_bytes")), Size(now.figure("central_cache_free_bytes")),
        Size(now.figure("page_heap_free_bytes"))));
    data.summary.push_back(RatesText(view));
    data.tables.push_back(ThreadTable(view));
    data.tables.push_back(ClassTable(*now.stats));
    if (view.samples.has_value()) data.tables.push_back(SiteTable(view.sites));
  }
  data.histories.push_back(HistoryOf(view, "resident", [](const ProcessFigures& figures) {
    return figures.info.memory.resident_bytes;
  }));
  if (now.stats.has_value()) {
    data.histories.push_back(HistoryOf(view, "in use", [](const ProcessFigures& figures) {
      return figures.figure("in_use_bytes");
    }));
  }
  return data;
}

}  // namespace cli
