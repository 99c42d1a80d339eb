// SPDX-License-Identifier: BSD-3-Clause
#include "stats/stats.h"

#include <algorithm>
#include <cstring>

#include "base/compiler.h"
#include "base/text.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/log.h"
#include "os/memory_map.h"
#include "os/process.h"
#include "process/heap.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

struct LibraryName {
  uintptr_t address;
  char* name;
};

void SeeMapping(std::string_view line, void* context) {
  const LibraryName& wanted = *static_cast<LibraryName*>(context);
  MappingLine mapping;
  if (!ParseMappingLine(line, &mapping) || wanted.address < mapping.start ||
      wanted.address >= mapping.end) {
    return;
  }
  const size_t length = std::min(mapping.name.size(), ProcessFacts::kMaxName - 1);
  memcpy(wanted.name, mapping.name.data(), length);
  wanted.name[length] = '\0';
}

// Finds the file from which this code was loaded.
TC_SLOW_PATH void FindLibrary(char* name) {
  LibraryName wanted = {reinterpret_cast<uintptr_t>(&CollectProcessFacts), name};
  LineReader<512> lines;
  lines.ForEachLine(ProcessPath("maps").c_str(), &SeeMapping, &wanted);
}

void WriteJsonText(std::string_view text, TextWriter* out) {
  out->Text("\"");
  for (const char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->Text("\\").Text({&c, 1});
    } else if (code < 0x20 || code >= 0x7f) {
      // The encoding of file names is unknown, so other bytes are escaped.
      constexpr char kDigits[] = "0123456789abcdef";
      out->Text("\\u00").Text({&kDigits[code >> 4], 1}).Text({&kDigits[code & 15], 1});
    } else {
      out->Text({&c, 1});
    }
  }
  out->Text("\"");
}

const char* NameOr(const char* name) { return *name == '\0' ? "(unknown file)" : name; }

}  // namespace

const std::string_view kLibraryVersion = TCMALLOC_VERSION;

void CollectProcessFacts(const Settings& settings, ProcessFacts* facts) {
  const ErrnoKeeper keeper;
  facts->pid = ProcessId();
  facts->seconds = WallClockNanoseconds() / 1'000'000'000;
  facts->program[ReadLink(ProcessPath("exe").c_str(), facts->program, ProcessFacts::kMaxName - 1)] =
      '\0';
  facts->settings = settings.given;
  facts->library[0] = '\0';
  FindLibrary(facts->library);
  const std::optional<ProcessMemory> memory = ReadProcessMemory(ProcessPath("statm").c_str());
  facts->resident_bytes = memory.has_value() ? memory->resident_bytes : 0;
  facts->anonymous_bytes = memory.has_value() ? memory->anonymous_bytes : 0;
}

void WriteBanner(const ProcessFacts& facts, TextWriter* out) {
  out->Text("TCMalloc ").Text(kLibraryVersion).Text(", ").Text(NameOr(facts.library)).Text("\n");
  out->Text("Process ").Number(facts.pid).Text(", ").Text(NameOr(facts.program)).Text(", ");
  WriteUtcTime(facts.seconds, out);
  if (facts.resident_bytes == 0) {
    out->Text("\nResident memory unknown: /proc/self/statm cannot be read\n");
  } else {
    out->Text("\nResident memory ").Mebibytes(facts.resident_bytes);
    out->Text(" MiB, anonymous ").Mebibytes(facts.anonymous_bytes);
    out->Text(" MiB (the kernel's figures for the whole process)\n");
  }
  out->Text("Settings: ").Text(*facts.settings == '\0' ? "default" : facts.settings).Text("\n");
}

void WriteFactsAsJson(const ProcessFacts& facts, TextWriter* out) {
  out->Text("\"version\":\"").Text(kLibraryVersion).Text("\",\"time\":\"");
  WriteUtcTime(facts.seconds, out);
  out->Text("\",\"pid\":").Number(facts.pid).Text(",\"program\":");
  WriteJsonText(facts.program, out);
  out->Text(",\"library\":");
  WriteJsonText(facts.library, out);
  out->Text(",\"settings\":");
  WriteJsonText(facts.settings, out);
  out->Text(",\"process_resident_bytes\":").Number(facts.resident_bytes);
  out->Text(",\"process_anonymous_bytes\":").Number(facts.anonymous_bytes).Text(",");
}

namespace {

size_t Difference(size_t a, size_t b) { return a > b ? a - b : 0; }

SizeClassStats ClassStats(Heap& heap, SizeClass c, size_t thread_cache_objects) {
  const CentralFreeList& list = heap.central.free_list(c);
  SizeClassStats stats;
  stats.object_size = list.object_size();
  stats.spans = list.num_spans();
  stats.thread_cache_objects = thread_cache_objects;
  stats.central_objects = list.free_objects();
  stats.sampled_objects = heap.page_heap.sampled().of_class(c);
  stats.in_use_objects = Difference(stats.spans * list.objects_per_span(),
                                    stats.thread_cache_objects + stats.central_objects) +
                         stats.sampled_objects;
  return stats;
}

void TakePageHeapStats(const PageStats& pages, size_t guarded_page_bytes, HeapStats* stats) {
  stats->system_bytes = pages.system_bytes - pages.metadata_span_bytes + guarded_page_bytes;
  stats->page_heap_free_bytes = pages.free_backed_bytes + pages.releasing_bytes;
  stats->kept_span_bytes = pages.kept_span_bytes;
  stats->releasing_bytes = pages.releasing_bytes;
  stats->released_bytes = pages.free_released_bytes;
  stats->large_bytes = pages.large_span_bytes;
  stats->large_objects = pages.large_spans;
  stats->sampled_bytes = pages.sampled_bytes;
  stats->sample_tail_bytes =
      pages.sampled_span_bytes - pages.sampled_bytes + guarded_page_bytes - stats->guarded_bytes;
  stats->spans_in_use += pages.large_spans + pages.sampled_objects;
  stats->growths = pages.growths;
  stats->releases = pages.releases;
  stats->released_total_bytes = pages.released_total_bytes + pages.unmapped_backed_bytes;
  stats->reserved_total_bytes = pages.system_bytes + pages.unmapped_total_bytes;
  stats->commits = pages.commits;
  stats->hugepages = pages.hugepages;
  stats->hugepage_bytes = pages.hugepage_bytes;
  stats->hugepages_split = pages.hugepages_split;
  stats->prefaults = pages.prefaults;
  stats->limits = pages.limits;
  stats->hard_limit = pages.hard_limit;
  stats->soft_limit = pages.soft_limit;
  BalanceStats(pages.small_span_bytes, stats);
}

// `caches` is null unless thread caches are read. `snapshot` gets the figures that are not in the
// totals; it may be null.
void CollectClasses(Heap& heap, const RegistryTotals* caches, HeapSnapshot* snapshot,
                    HeapStats* totals) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const SizeClassStats of_class =
        ClassStats(heap, c, caches == nullptr ? 0 : caches->cached_objects[i]);
    totals->central_bytes += of_class.central_objects * of_class.object_size;
    totals->span_tail_bytes += heap.central.free_list(c).tail_bytes();
    totals->spans_in_use += of_class.spans;
    if (snapshot != nullptr) snapshot->classes[i] = of_class;
  }
}

// Called after the figures of caches and classes were read, since it clamps them.
void CollectPages(Heap& heap, uint8_t parts, HeapSnapshot* snapshot, HeapStats* totals) {
  const PageStats pages =
      heap.page_heap.GetStats(snapshot == nullptr ? nullptr : &snapshot->free_spans);
  const size_t guarded_page_bytes = heap.guarded.page_bytes.value();
  totals->guarded_bytes = std::min(heap.guarded.object_bytes.value(), guarded_page_bytes);
  totals->guarded_objects = heap.guarded.objects.value();
  TakePageHeapStats(pages, guarded_page_bytes, totals);
  totals->releases += heap.holes.releases();
  totals->released_total_bytes += heap.holes.released_total_bytes();
  if ((parts & StatsParts::kHoles) != 0) {
    // The figure may not exceed the sum that it is a part of, also while both change.
    const size_t whole =
        (parts & StatsParts::kClasses) != 0
            ? totals->central_bytes + totals->span_tail_bytes - totals->sample_tail_bytes
            : pages.small_span_bytes;
    totals->hole_bytes = std::min(heap.holes.hole_bytes(), whole);
  }
  totals->committed_total_bytes =
      totals->system_bytes - totals->unmapped_bytes() + totals->released_total_bytes;
  totals->metadata_bytes =
      heap.arena.mapped_bytes() + pages.metadata_span_bytes + heap.guarded.record_bytes.value();
}

void CollectSettings(Heap& heap, HeapStats* totals) {
  totals->releases_at_once = heap.page_heap.hints().releasing.value() == Releasing::kEager;
  totals->sample_period_bytes = heap.sampling.period();
  totals->guarded_sample = heap.guarded.every.load(std::memory_order_relaxed);
  totals->retention = heap.page_heap.Shares(heap.registry.all().of_threads.value());
  const Registry::Limits limits = heap.registry.limits();
  totals->thread_cache_limit_bytes = limits.total;
  totals->min_thread_cache_bytes = limits.min_per_cache;
  totals->large_allocations = heap.large_reports.allocations();
  totals->large_allocation_reports = heap.large_reports.reports();
  const PressureCounts& pressure = heap.pressure_counts;
  totals->pressure_sources = pressure.sources.load(std::memory_order_relaxed);
  totals->pressure_sources_failed = pressure.sources_failed.load(std::memory_order_relaxed);
  totals->listens_to_pressure = *heap.settings.pressure != '\0' || totals->pressure_sources > 0 ||
                                totals->pressure_sources_failed > 0;
  totals->pressure_events = pressure.events.value();
  for (size_t i = 0; i < PressureCounts::kLevels; ++i) {
    totals->pressure_actions[i] = pressure.actions[i].value();
    totals->pressure_moved_bytes += pressure.moved_bytes[i].value();
  }
}

// Collects caches and classes. It is a separate function because of the stack that it needs.
TC_SLOW_PATH void CollectObjects(Heap& heap, uint8_t parts, HeapSnapshot* snapshot,
                                 HeapStats* totals) {
  if ((parts & StatsParts::kCaches) == 0) return CollectClasses(heap, nullptr, snapshot, totals);
  const RegistryTotals caches = TotalsOf(heap.registry);
  totals->thread_cache_bytes = caches.cached_bytes;
  totals->thread_cache_array_bytes = caches.array_bytes;
  totals->thread_caches = caches.caches;
  if ((parts & StatsParts::kClasses) != 0) CollectClasses(heap, &caches, snapshot, totals);
}

// `snapshot` gets the figures that are not in the totals; it may be null.
void Collect(Heap& heap, uint8_t parts, HeapSnapshot* snapshot, HeapStats* totals) {
  *totals = {};
  if ((parts & (StatsParts::kCaches | StatsParts::kClasses)) != 0) {
    CollectObjects(heap, parts, snapshot, totals);
  }
  if ((parts & StatsParts::kCacheCount) != 0) totals->thread_caches = HeldCaches(heap.registry);
  if ((parts & StatsParts::kPages) != 0) {
    CollectPages(heap, parts, snapshot, totals);
  }
  if ((parts & StatsParts::kSettings) != 0) CollectSettings(heap, totals);
}

void ToStderr(std::string_view text, void*) { WriteToStderr(text); }

// It is not inlined, so that its stack is free again before the snapshot is taken.
TC_SLOW_PATH void WriteBannerOf(Heap& heap, TextWriter* out) {
  ProcessFacts facts;
  CollectProcessFacts(heap.settings, &facts);
  WriteBanner(facts, out);
}

// Room for the text without tables, so that it reaches stderr in one piece.
constexpr size_t kChunk = size_t{4} << 10;

}  // namespace

void BalanceStats(size_t small_span_bytes, HeapStats* stats) {
  size_t rest = small_span_bytes;
  for (size_t HeapStats::* const part :
       {&HeapStats::span_tail_bytes, &HeapStats::central_bytes, &HeapStats::thread_cache_bytes}) {
    size_t& bytes = stats->*part;
    bytes = std::min(bytes, rest);
    rest -= bytes;
  }
  stats->in_use_bytes = stats->large_bytes + stats->sampled_bytes + stats->guarded_bytes + rest;
  stats->span_tail_bytes += stats->sample_tail_bytes;
}

void CollectSnapshot(Heap& heap, HeapSnapshot* snapshot) {
  Collect(heap, StatsParts::kAll, snapshot, &snapshot->totals);
}

HeapStats CollectStats(Heap& heap, uint8_t parts) {
  HeapStats totals;
  Collect(heap, parts, nullptr, &totals);
  return totals;
}

SizeClassStats CollectSizeClassStats(Heap& heap, SizeClass c) {
  return ClassStats(heap, c, CachedObjects(heap.registry, c));
}

void WriteStats(Heap& heap, int level, TextWriter* out) {
  HeapSnapshot snapshot;
  CollectSnapshot(heap, &snapshot);
  WriteStatsText(snapshot, level, out);
}

void PrintStats(Heap& heap, int level) {
  char buffer[kChunk];
  TextWriter out(buffer, sizeof(buffer), &ToStderr, nullptr);
  WriteStats(heap, level, &out);
  out.Flush();
}

void PrintStatsWithBanner(Heap& heap, int level) {
  char buffer[kChunk];
  TextWriter out(buffer, sizeof(buffer), &ToStderr, nullptr);
  WriteBannerOf(heap, &out);
  WriteStats(heap, level, &out);
  out.Flush();
}

}  // namespace tcmalloc
