// SPDX-License-Identifier: BSD-3-Clause
#include "stats/stats_formats.h"

namespace tcmalloc {
namespace {

void WriteAttribute(const char* name, size_t value, TextWriter* out) {
  out->Text(" ").Text(name).Text("=\"").Number(value).Text("\"");
}

void WriteTotal(const char* type, size_t count, size_t bytes, TextWriter* out) {
  out->Text("<total type=\"").Text(type).Text("\"");
  WriteAttribute("count", count, out);
  WriteAttribute("size", bytes, out);
  out->Text("/>\n");
}

void WriteSystem(const char* type, size_t bytes, TextWriter* out) {
  out->Text("<system type=\"").Text(type).Text("\"");
  WriteAttribute("size", bytes, out);
  out->Text("/>\n");
}

void WriteClass(const SizeClassStats& s, TextWriter* out) {
  const size_t free_objects = s.thread_cache_objects + s.central_objects;
  out->Text("<size");
  WriteAttribute("to", s.object_size, out);
  WriteAttribute("total", free_objects * s.object_size, out);
  WriteAttribute("count", free_objects, out);
  WriteAttribute("in_use", s.in_use_objects, out);
  WriteAttribute("spans", s.spans, out);
  out->Text("/>\n");
}

}  // namespace

void WriteStatsXml(const HeapSnapshot& snapshot, TextWriter* out) {
  const HeapStats& s = snapshot.totals;
  out->Text("<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
  for (const SizeClassStats& of_class : snapshot.classes) {
    if (of_class.any()) WriteClass(of_class, out);
  }
  out->Text("</sizes>\n");
  WriteTotal("fast", s.thread_caches, s.thread_cache_bytes, out);
  WriteTotal("rest", 0, s.free_in_spans_bytes() + s.page_heap_free_bytes, out);
  WriteTotal("mmap", s.large_objects, s.large_bytes, out);
  out->Text("</heap>\n");
  WriteTotal("in_use", 0, s.in_use_bytes, out);
  WriteSystem("current", s.actual_bytes() - s.metadata_bytes, out);
  WriteSystem("released", s.unmapped_bytes(), out);
  WriteSystem("metadata", s.metadata_bytes, out);
  out->Text("</malloc>\n");
}

}  // namespace tcmalloc
