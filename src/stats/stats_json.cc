// SPDX-License-Identifier: BSD-3-Clause
#include "stats/stats_formats.h"

namespace tcmalloc {
namespace {

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

}  // namespace

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

}  // namespace tcmalloc
