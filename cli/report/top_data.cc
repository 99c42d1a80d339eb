// SPDX-License-Identifier: BSD-3-Clause
#include "report/top_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "report/table.h"

namespace cli {
namespace {

// The period over which rates are computed. Within a second, a few samples more or less would
// determine the rate.
constexpr int64_t kRateWindowMs = 10000;

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
    if (!c.any()) continue;
    const uint64_t memory = c.memory_bytes();
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

// Makes the table of call sites. Each is named by the function that the program's author knows, and
// by the caller of that function. Sites with the same names are one row. The bytes are the
// requested bytes of objects in use.
Table SiteTable(const std::vector<CallSite>& sites) {
  Table table{
      .name = "call sites",
      .columns = {
          {"REQUESTED", true}, {"OBJECTS", true}, {"SAMPLES", true}, {"FUNCTION"}, {"CALLER"}}};
  struct Sum {
    double bytes = 0;
    double objects = 0;
    uint64_t samples = 0;
  };
  std::map<std::vector<std::string>, Sum> rows;
  for (const CallSite& site : sites) {
    const size_t own = OwnFrame(site);
    std::vector<std::string> names(2);
    for (size_t n = 0; n < names.size() && own + n < site.frames.size(); ++n) {
      const SourceFrame& frame = *site.frames[own + n];
      names[n] = frame.function;
      const std::string source = SourceOf(frame);
      if (!source.empty()) names[n] += fmt::format(" ({})", source);
    }
    Sum& sum = rows[names];
    sum.bytes += site.bytes;
    sum.objects += site.objects;
    sum.samples += site.samples;
  }
  for (const auto& [names, sum] : rows) {
    table.rows.push_back(
        {fmt::format("{}\n{}", names[0], names[1]),
         {Bytes(static_cast<uint64_t>(sum.bytes)), Number(static_cast<uint64_t>(sum.objects)),
          Number(sum.samples), Text(names[0]), Text(names[1])}});
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
  const Rates rates = RatesOf(view);
  std::string text = fmt::format("growth {}", Rate(rates.growth).text);
  if (rates.allocated.has_value()) {
    text += fmt::format(", allocates about {}/s", Size(static_cast<uint64_t>(*rates.allocated)));
  }
  if (rates.growth.has_value()) text += fmt::format(", in the last {:.0f} s", rates.seconds);
  if (view.samples.has_value() && view.samples->interval == 0) {
    text += "; TCMALLOC_SAMPLE_PARAMETER=524288 at its start would show call sites";
  }
  return text;
}

// The memory in use at a time.
struct Reading {
  int64_t time_ms = 0;
  double in_use_bytes = 0;
};

std::vector<Reading> ReadingsOf(const ProcessView& view) {
  std::vector<Reading> readings;
  for (const ProcessFigures& figures : view.history) {
    if (!figures.stats.has_value()) continue;
    readings.push_back({figures.time_ms, static_cast<double>(figures.figure("in_use_bytes"))});
  }
  return readings;
}

// Returns the counts that are comparable with the last one.
std::vector<SampleCount> ComparableCounts(std::vector<SampleCount> counts) {
  const auto last_other = std::find_if(
      counts.rbegin(), counts.rend(), [&last = counts.back()](const SampleCount& count) {
        return count.interval == 0 || count.interval != last.interval ||
               count.samples > last.samples;
      });
  counts.erase(counts.begin(), last_other.base());
  return counts;
}

// Returns the first moment of the window, which ends with the last moment. If only the last one is
// in the window, returns the one before it. Requires: at least two, in the order of time.
template <typename T>
const T& BeginOfWindow(const std::vector<T>& moments) {
  const int64_t begin_ms = moments.back().time_ms - kRateWindowMs;
  const auto begin = std::find_if(moments.begin(), moments.end() - 2, [begin_ms](const T& moment) {
    return moment.time_ms >= begin_ms;
  });
  return *begin;
}

}  // namespace

Rates RatesOf(const ProcessView& view) {
  std::vector<Reading> readings = ReadingsOf(view);
  Rates rates;
  if (!view.sample_history.empty()) {
    const std::vector<SampleCount> counts = ComparableCounts(view.sample_history);
    if (counts.size() >= 2) {
      const SampleCount& begin = BeginOfWindow(counts);
      const SampleCount& end = counts.back();
      std::erase_if(readings, [&](const Reading& reading) {
        return reading.time_ms < begin.time_ms || reading.time_ms > end.time_ms;
      });
      if (end.time_ms > begin.time_ms) {
        rates.allocated = static_cast<double>(end.samples - begin.samples) *
                          static_cast<double>(end.interval) * 1000 /
                          static_cast<double>(end.time_ms - begin.time_ms);
      }
    }
  }
  if (readings.size() < 2) return rates;
  const Reading& begin = BeginOfWindow(readings);
  const Reading& end = readings.back();
  if (end.time_ms <= begin.time_ms) return rates;
  rates.seconds = static_cast<double>(end.time_ms - begin.time_ms) / 1000;
  rates.growth = (end.in_use_bytes - begin.in_use_bytes) / rates.seconds;
  return rates;
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
          Bytes(now.overhead_bytes()), Rate(RatesOf(view).growth), Number(now.info.threads),
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
