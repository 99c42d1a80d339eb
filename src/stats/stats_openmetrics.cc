// SPDX-License-Identifier: BSD-3-Clause
// A metric has the name of the figure with the prefix "tcmalloc_".
#include "stats/stats_formats.h"

namespace tcmalloc {
namespace {

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
  constexpr State kStates[] = {{"in_use", &SizeClassStats::in_use_objects},
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
