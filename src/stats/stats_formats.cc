// SPDX-License-Identifier: BSD-3-Clause
// The figures of the statistics, and the formats for programs: JSON and OpenMetrics. The text is in
// stats/stats_text.cc.
#include "stats/stats.h"

namespace tcmalloc {
namespace {

using Kind = StatsFigure::Kind;

size_t OrZero(size_t limit_bytes) { return limit_bytes == kNoLimit ? 0 : limit_bytes; }

constexpr StatsFigure kFigures[] = {
    // The sums of the text, in its order.
    {"in_use_bytes", Kind::kGauge,
     "Memory in objects that the program holds, each with its usable size.",
     &Figure<&HeapStats::in_use_bytes>},
    {"page_heap_free_bytes", Kind::kGauge, "Memory in free runs of pages that is not released.",
     &Figure<&HeapStats::page_heap_free_bytes>},
    {"central_cache_free_bytes", Kind::kGauge,
     "Free memory in runs of pages that also hold objects in use.",
     &Figure<&HeapStats::free_in_spans_bytes>},
    {"thread_cache_free_bytes", Kind::kGauge, "Free objects in thread caches.",
     &Figure<&HeapStats::thread_cache_bytes>},
    {"metadata_bytes", Kind::kGauge, "The allocator's own records.",
     &Figure<&HeapStats::metadata_bytes>},
    {"actual_bytes", Kind::kGauge, "All memory of the heap: the sum of the figures above.",
     &Figure<&HeapStats::actual_bytes>},
    {"released_bytes", Kind::kGauge,
     "Address space of the heap that is not backed by memory: released, or never used.",
     &Figure<&HeapStats::unmapped_bytes>},
    {"virtual_bytes", Kind::kGauge, "All address space of the heap.",
     &Figure<&HeapStats::virtual_bytes>},
    // Parts of the sums.
    {"large_in_use_bytes", Kind::kGauge, "The part of in_use_bytes in objects above 64 KiB.",
     &Figure<&HeapStats::large_bytes>},
    {"guarded_bytes", Kind::kGauge, "The part of in_use_bytes in guarded samples.",
     &Figure<&HeapStats::guarded_bytes>},
    {"span_tail_bytes", Kind::kGauge,
     "The part of central_cache_free_bytes that fits no object: the ends of runs of pages in use.",
     &Figure<&HeapStats::span_tail_bytes>},
    {"sample_tail_bytes", Kind::kGauge,
     "The part of span_tail_bytes in the pages of sampled objects.",
     &Figure<&HeapStats::sample_tail_bytes>},
    {"released_in_spans_bytes", Kind::kGauge,
     "The part of released_bytes that lies between objects in use.",
     &Figure<&HeapStats::hole_bytes>},
    {"kept_span_bytes", Kind::kGauge,
     "The part of page_heap_free_bytes in empty spans that shards keep for their next use.",
     &Figure<&HeapStats::kept_span_bytes>},
    {"releasing_bytes", Kind::kGauge,
     "The part of page_heap_free_bytes that is being released at the moment.",
     &Figure<&HeapStats::releasing_bytes>},
    {"thread_cache_array_bytes", Kind::kGauge,
     "The part of metadata_bytes in arrays of thread caches.",
     &Figure<&HeapStats::thread_cache_array_bytes>},
    {"hugepage_bytes", Kind::kGauge, "Address space for which the library requested hugepages.",
     &Figure<&HeapStats::hugepage_bytes>},
    {"page_size_bytes", Kind::kGauge, "The allocator's page.",
     [](const HeapStats&) { return kPageSize; }},
    {"thread_cache_limit_bytes", Kind::kGauge, "What all thread caches may hold together.",
     &Figure<&HeapStats::thread_cache_limit_bytes>},
    {"retention_bytes", Kind::kGauge,
     "What the allocator may retain beyond the memory in use: the sum of the next four.",
     [](const HeapStats& s) { return s.retention.total; }},
    {"retention_thread_cache_bytes", Kind::kGauge, "The share of thread caches.",
     [](const HeapStats& s) { return s.retention.thread_caches; }},
    {"retention_inherited_bytes", Kind::kGauge,
     "The share of caches that ended threads left for new ones.",
     [](const HeapStats& s) { return s.retention.inherited_caches; }},
    {"retention_kept_span_bytes", Kind::kGauge, "The share of empty spans that shards keep.",
     [](const HeapStats& s) { return s.retention.kept_spans; }},
    {"retention_free_page_bytes", Kind::kGauge,
     "The share of free pages, beyond what the program needed within the last seconds.",
     [](const HeapStats& s) { return s.retention.free_pages; }},
    {"hard_limit_bytes", Kind::kGauge, "The hard limit on actual_bytes; 0 when there is none.",
     [](const HeapStats& s) { return OrZero(s.limits.hard_bytes); }},
    {"soft_limit_bytes", Kind::kGauge, "The soft limit on actual_bytes; 0 when there is none.",
     [](const HeapStats& s) { return OrZero(s.limits.soft_bytes); }},
    // Counts.
    {"large_objects", Kind::kGauge, "Objects above 64 KiB that the program holds.",
     &Figure<&HeapStats::large_objects>},
    {"spans_in_use", Kind::kGauge, "Runs of pages that hold objects in use.",
     &Figure<&HeapStats::spans_in_use>},
    {"thread_caches", Kind::kGauge, "Threads that have a cache.",
     &Figure<&HeapStats::thread_caches>},
    // Events since the process began.
    {"growths", Kind::kCounter, "Times that the heap took address space from the OS.",
     &Figure<&HeapStats::growths>},
    {"reserved_bytes", Kind::kCounter, "Address space that the heap took from the OS.",
     &Figure<&HeapStats::reserved_total_bytes>},
    {"commits", Kind::kCounter, "Times that address space became backed by memory.",
     &Figure<&HeapStats::commits>},
    {"committed_bytes", Kind::kCounter, "Address space that became backed by memory.",
     &Figure<&HeapStats::committed_total_bytes>},
    {"releases", Kind::kCounter, "Times that memory was released to the OS.",
     &Figure<&HeapStats::releases>},
    {"decommitted_bytes", Kind::kCounter, "Memory that was released to the OS.",
     &Figure<&HeapStats::released_total_bytes>},
    {"prefaults", Kind::kCounter,
     "Times that the library asked the OS to back memory before its first use.",
     &Figure<&HeapStats::prefaults>},
    {"hugepages_split", Kind::kCounter, "Times that a part of a hugepage in use was released.",
     &Figure<&HeapStats::hugepages_split>},
    {"hard_limit_hits", Kind::kCounter, "Requests that reached the hard limit.",
     [](const HeapStats& s) { return s.hard_limit.hits; }},
    {"hard_limit_released_bytes", Kind::kCounter,
     "Memory that was released to the OS because of the hard limit.",
     [](const HeapStats& s) { return s.hard_limit.released_bytes; }},
    {"soft_limit_hits", Kind::kCounter, "Requests that reached the soft limit.",
     [](const HeapStats& s) { return s.soft_limit.hits; }},
    {"soft_limit_released_bytes", Kind::kCounter,
     "Memory that was released to the OS because of the soft limit.",
     [](const HeapStats& s) { return s.soft_limit.released_bytes; }},
    {"large_allocations", Kind::kCounter,
     "Allocations of at least the report threshold, by default 1 GiB.",
     &Figure<&HeapStats::large_allocations>},
    {"large_allocation_reports", Kind::kCounter, "Those of them that were reported.",
     &Figure<&HeapStats::large_allocation_reports>},
    {"pressure_sources", Kind::kGauge, "Sources of memory pressure that the library listens to.",
     &Figure<&HeapStats::pressure_sources>},
    {"pressure_sources_failed", Kind::kCounter,
     "Sources of memory pressure that could not be opened, or failed later.",
     &Figure<&HeapStats::pressure_sources_failed>},
    {"pressure_events", Kind::kCounter, "Events that these sources reported.",
     &Figure<&HeapStats::pressure_events>},
    {"pressure_thread_flushes", Kind::kCounter,
     "Times that thread caches were emptied because of memory pressure.",
     [](const HeapStats& s) { return s.pressure_actions[0]; }},
    {"pressure_flushes", Kind::kCounter,
     "Times that all caches were emptied because of memory pressure.",
     [](const HeapStats& s) { return s.pressure_actions[1]; }},
    {"pressure_releases", Kind::kCounter,
     "Times that free memory was released to the OS because of memory pressure.",
     [](const HeapStats& s) { return s.pressure_actions[2]; }},
    {"pressure_moved_bytes", Kind::kCounter,
     "Memory that responses to memory pressure moved: out of caches at levels 1 and 2, to the OS "
     "at "
     "level 3.",
     &Figure<&HeapStats::pressure_moved_bytes>},
};

// Writes a comma before each member of an object or array but the first.
class Separator {
 public:
  TextWriter& Next(TextWriter* out) {
    if (any_) out->Text(",");
    any_ = true;
    return *out;
  }

 private:
  bool any_ = false;
};

void WriteClasses(const HeapSnapshot& snapshot, TextWriter* out) {
  out->Text("[");
  Separator separator;
  for (const SizeClassStats& s : snapshot.classes) {
    if (!s.any()) continue;
    separator.Next(out).Text("{\"object_size_bytes\":").Number(s.object_size);
    out->Text(",\"spans\":").Number(s.spans);
    out->Text(",\"in_use_objects\":").Number(s.in_use_objects);
    out->Text(",\"thread_cache_objects\":").Number(s.thread_cache_objects);
    out->Text(",\"central_cache_objects\":").Number(s.central_objects).Text("}");
  }
  out->Text("]");
}

void WriteCount(const FreeSpanCounts::Count& count, TextWriter* out) {
  out->Text(",\"free_spans\":").Number(count.backed);
  out->Text(",\"released_spans\":").Number(count.released);
}

void WriteLengths(const FreeSpanCounts& lengths, TextWriter* out) {
  out->Text("[");
  Separator separator;
  for (size_t i = 0; i < lengths.exact.size(); ++i) {
    const FreeSpanCounts::Count& count = lengths.exact[i];
    if (count.backed == 0 && count.released == 0) continue;
    separator.Next(out).Text("{\"pages\":").Number(i + 1);
    WriteCount(count, out);
    out->Text("}");
  }
  out->Text("],\"longer_free_spans\":{\"more_than_pages\":").Number(lengths.exact.size());
  WriteCount(lengths.longer, out);
  out->Text(",\"free_bytes\":").Number(lengths.longer_backed_bytes);
  out->Text(",\"released_bytes\":").Number(lengths.longer_released_bytes).Text("}");
}

void WriteHead(std::string_view name, const char* type, const char* help, TextWriter* out) {
  out->Text("# TYPE tcmalloc_").Text(name).Text(" ").Text(type).Text("\n");
  if (name.ends_with("_bytes")) out->Text("# UNIT tcmalloc_").Text(name).Text(" bytes\n");
  out->Text("# HELP tcmalloc_").Text(name).Text(" ").Text(help).Text("\n");
}

void WriteClassMetrics(const HeapSnapshot& snapshot, TextWriter* out) {
  struct State {
    const char* name;
    size_t SizeClassStats::* objects;
  };
  static constexpr State kStates[] = {{"in_use", &SizeClassStats::in_use_objects},
                                      {"thread_cache", &SizeClassStats::thread_cache_objects},
                                      {"central_cache", &SizeClassStats::central_objects}};
  WriteHead("size_class_spans", "gauge", "Runs of pages that are cut into objects of a size.", out);
  for (const SizeClassStats& s : snapshot.classes) {
    if (!s.any()) continue;
    out->Text("tcmalloc_size_class_spans{object_size=\"").Number(s.object_size);
    out->Text("\"} ").Number(s.spans).Text("\n");
  }
  WriteHead("size_class_objects", "gauge", "Objects of a size, by where they are.", out);
  for (const SizeClassStats& s : snapshot.classes) {
    if (!s.any()) continue;
    for (const State& state : kStates) {
      out->Text("tcmalloc_size_class_objects{object_size=\"").Number(s.object_size);
      out->Text("\",state=\"").Text(state.name).Text("\"} ").Number(s.*state.objects).Text("\n");
    }
  }
}

void WriteLength(size_t pages, bool longer, const FreeSpanCounts::Count& count, TextWriter* out) {
  if (count.backed == 0 && count.released == 0) return;
  for (const bool released : {false, true}) {
    out->Text("tcmalloc_free_spans{pages=\"").Text(longer ? ">" : "").Number(pages);
    out->Text("\",state=\"").Text(released ? "released" : "free").Text("\"} ");
    out->Number(released ? count.released : count.backed).Text("\n");
  }
}

void WriteLengthMetrics(const FreeSpanCounts& lengths, TextWriter* out) {
  WriteHead("free_spans", "gauge", "Free runs of pages, by their length.", out);
  for (size_t i = 0; i < lengths.exact.size(); ++i) {
    WriteLength(i + 1, false, lengths.exact[i], out);
  }
  WriteLength(lengths.exact.size(), true, lengths.longer, out);
}

}  // namespace

std::span<const StatsFigure> AllStatsFigures() { return kFigures; }

void WriteStatsJson(const HeapSnapshot& snapshot, const ProcessFacts* facts, TextWriter* out) {
  out->Text("{");
  if (facts != nullptr) WriteFactsAsJson(*facts, out);
  Separator separator;
  for (const StatsFigure& figure : AllStatsFigures()) {
    separator.Next(out).Text("\"").Text(figure.name).Text(figure.suffix()).Text("\":");
    out->Number(figure.value(snapshot.totals));
  }
  out->Text(",\"hugepages\":{\"mode\":\"");
  out->Text(HugepageModeName(snapshot.totals.hugepages.mode)).Text("\"}");
  out->Text(",\"size_classes\":");
  WriteClasses(snapshot, out);
  out->Text(",\"free_spans_by_length\":");
  WriteLengths(snapshot.free_spans, out);
  out->Text("}");
}

// A metric has the name of the figure with the prefix "tcmalloc_".
void WriteStatsOpenMetrics(const HeapSnapshot& snapshot, TextWriter* out) {
  WriteHead("build", "info", "The library.", out);
  out->Text("tcmalloc_build_info{version=\"").Text(kLibraryVersion).Text("\"} 1\n");
  for (const StatsFigure& figure : AllStatsFigures()) {
    WriteHead(figure.name, figure.kind == StatsFigure::Kind::kCounter ? "counter" : "gauge",
              figure.help, out);
    out->Text("tcmalloc_").Text(figure.name).Text(figure.suffix()).Text(" ");
    out->Number(figure.value(snapshot.totals)).Text("\n");
  }
  WriteHead("hugepages", "info", "The OS's setting for transparent hugepages.", out);
  out->Text("tcmalloc_hugepages_info{mode=\"");
  out->Text(HugepageModeName(snapshot.totals.hugepages.mode)).Text("\"} 1\n");
  WriteClassMetrics(snapshot, out);
  WriteLengthMetrics(snapshot.free_spans, out);
  out->Text("# EOF\n");
}

}  // namespace tcmalloc
