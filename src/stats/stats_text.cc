// SPDX-License-Identifier: BSD-3-Clause
// The text of malloc_stats. Tools that read gperftools' text look for the words of the sums at the
// top, so these words must not change. The lines below the sums are this library's.
#include "stats/stats.h"

namespace tcmalloc {
namespace {

constexpr const char kRule[] = "------------------------------------------------\n";
constexpr const char kSum[] = "MALLOC:   ------------\n";

void WriteLine(TextWriter* out, const char* sign, size_t bytes, const char* what) {
  out->Text("MALLOC: ").Text(sign).Number(bytes, 13).Text(" (").Mebibytes(bytes, 7).Text(" MiB) ");
  out->Text(what).Text("\n");
}

void WriteCount(TextWriter* out, size_t count, const char* what) {
  out->Text("MALLOC:  ").Number(count, 13).Text("               ").Text(what).Text("\n");
}

void WriteSums(const HeapStats& s, TextWriter* out) {
  WriteLine(out, " ", s.in_use_bytes, "Bytes in use by application");
  WriteLine(out, "+", s.page_heap_free_bytes, "Bytes in page heap freelist");
  WriteLine(out, "+", s.free_in_spans_bytes(), "Bytes in central cache freelist");
  // There is no transfer cache, but tools look for the line.
  WriteLine(out, "+", 0, "Bytes in transfer cache freelist");
  WriteLine(out, "+", s.thread_cache_bytes, "Bytes in thread cache freelists");
  WriteLine(out, "+", s.metadata_bytes, "Bytes in malloc metadata");
  out->Text(kSum);
  WriteLine(out, "=", s.actual_bytes(), "Actual memory used (physical + swap)");
  WriteLine(out, "+", s.unmapped_bytes(), "Bytes released to OS (aka unmapped)");
  out->Text(kSum);
  WriteLine(out, "=", s.virtual_bytes(), "Virtual address space used");
  out->Text("MALLOC:\n");
  WriteCount(out, s.spans_in_use, "Spans in use");
  WriteCount(out, s.thread_caches, "Thread heaps in use");
  WriteCount(out, kPageSize, "Tcmalloc page size");
}

// Writes nothing when there is no such limit, and no earlier limit had an effect.
void WriteLimit(TextWriter* out, size_t limit_bytes, const LimitWatch::Counts& counts,
                const char* kind) {
  if (limit_bytes == kNoLimit && counts.hits == 0 && counts.released_bytes == 0) return;
  const auto write_bytes = [out, kind](size_t bytes, const char* what) {
    out->Text("MALLOC:  ").Number(bytes, 13).Text(" (").Mebibytes(bytes, 7).Text(" MiB) ");
    out->Text(kind).Text(what).Text("\n");
  };
  write_bytes(limit_bytes == kNoLimit ? 0 : limit_bytes, " limit (0 for none)");
  out->Text("MALLOC:  ").Number(counts.hits, 13).Text("               Times that the ");
  out->Text(kind).Text(" limit was reached\n");
  write_bytes(counts.released_bytes, " limit: bytes released because of it");
}

void WriteMore(const HeapStats& s, TextWriter* out) {
  out->Text("MALLOC:\n");
  WriteLine(out, " ", s.large_bytes, "Bytes in large objects");
  WriteCount(out, s.large_objects, "Large objects in use");
  WriteLine(out, " ", s.span_tail_bytes, "Bytes in span tails");
  WriteLine(out, " ", s.hole_bytes, "Bytes released to OS inside spans in use");
  WriteLine(out, " ", s.kept_span_bytes, "Bytes in empty spans kept by shards");
  WriteLine(out, " ", s.retention.total, "Bytes that may be retained beyond those in use");
  WriteLine(out, " ", s.releasing_bytes, "Bytes on their way to OS");
  WriteLine(out, " ", s.thread_cache_array_bytes, "Bytes in arrays of thread caches");
  WriteCount(out, s.growths, "Times the heap grew");
  WriteCount(out, s.releases, "Times memory was released to OS");
  WriteLine(out, " ", s.released_total_bytes, "Bytes released to OS so far");
  WriteCount(out, s.prefaults, "Times memory was pre-faulted");
  out->Text("MALLOC:  Hugepages: ").Text(HugepageModeName(s.hugepages.mode)).Text("\n");
  if (s.hugepages.mode != HugepageMode::kNever) {
    WriteLine(out, " ", s.hugepage_bytes, "Bytes where hugepages were requested");
    WriteCount(out, s.hugepages_split, "Times hugepages in use were split");
  }
  if (s.listens_to_pressure) {
    WriteCount(out, s.pressure_sources, "Sources of memory pressure");
    WriteCount(out, s.pressure_sources_failed, "Sources of memory pressure that failed");
    WriteCount(out, s.pressure_events, "Events of memory pressure");
    WriteCount(out, s.pressure_actions[0], "Times thread caches were emptied under pressure");
    WriteCount(out, s.pressure_actions[1], "Times all caches were emptied under pressure");
    WriteCount(out, s.pressure_actions[2], "Times memory was released under pressure");
  }
  if (s.large_allocations > 0) {
    WriteCount(out, s.large_allocations, "Allocations above the report threshold");
    WriteCount(out, s.large_allocation_reports, "Allocations that were reported");
  }
  WriteLimit(out, s.limits.hard_bytes, s.hard_limit, "hard");
  WriteLimit(out, s.limits.soft_bytes, s.soft_limit, "soft");
}

size_t AllObjects(const SizeClassStats& s) {
  return s.in_use_objects + s.thread_cache_objects + s.central_objects;
}

// The columns that a class and the total have. `used_bytes` is the part of `bytes` in objects in
// use.
void WriteClassColumns(const SizeClassStats& s, size_t bytes, size_t used_bytes, TextWriter* out) {
  out->Number(s.spans, 9).Number(s.in_use_objects, 13).Number(s.thread_cache_objects, 16);
  out->Number(s.central_objects, 10).Number(bytes, 14);
  // Tenths of a percent. Double, because the products of large figures would overflow.
  const double part = bytes == 0 ? 0 : static_cast<double>(used_bytes) / static_cast<double>(bytes);
  const auto tenths = static_cast<uint64_t>(part * 1000);
  out->Number(tenths / 10, 6).Text(".").Number(tenths % 10).Text("\n");
}

void WriteClassLines(const HeapSnapshot& snapshot, TextWriter* out) {
  out->Text("MALLOC: class     size    spans       in use   thread caches   central");
  out->Text("         bytes  used %\n");
  SizeClassStats total;
  size_t bytes = 0;
  size_t used_bytes = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClassStats& s = snapshot.classes[i];
    if (!s.any()) continue;
    const size_t of_class = AllObjects(s) * s.object_size;
    const size_t used_of_class = s.in_use_objects * s.object_size;
    out->Text("MALLOC: ").Number(i, 5).Number(s.object_size, 9);
    WriteClassColumns(s, of_class, used_of_class, out);
    total.spans += s.spans;
    total.in_use_objects += s.in_use_objects;
    total.thread_cache_objects += s.thread_cache_objects;
    total.central_objects += s.central_objects;
    bytes += of_class;
    used_bytes += used_of_class;
  }
  out->Text("MALLOC: total        -");
  WriteClassColumns(total, bytes, used_bytes, out);
}

void WriteLengthColumns(const FreeSpanCounts::Count& count, size_t backed_bytes,
                        size_t released_bytes, TextWriter* out) {
  out->Number(count.backed, 13).Mebibytes(backed_bytes, 12);
  out->Number(count.released, 17).Mebibytes(released_bytes, 12).Text("\n");
}

void WriteLengthLines(const FreeSpanCounts& lengths, TextWriter* out) {
  out->Text("MALLOC:  pages   free spans         MiB   released spans         MiB\n");
  FreeSpanCounts::Count total = lengths.longer;
  size_t backed_bytes = lengths.longer_backed_bytes;
  size_t released_bytes = lengths.longer_released_bytes;
  for (size_t i = 0; i < lengths.exact.size(); ++i) {
    const FreeSpanCounts::Count& count = lengths.exact[i];
    if (count.backed == 0 && count.released == 0) continue;
    const size_t span_bytes = (i + 1) * kPageSize;
    out->Text("MALLOC:  ").Number(i + 1, 5);
    WriteLengthColumns(count, count.backed * span_bytes, count.released * span_bytes, out);
    total.backed += count.backed;
    total.released += count.released;
    backed_bytes += count.backed * span_bytes;
    released_bytes += count.released * span_bytes;
  }
  if (lengths.longer.backed > 0 || lengths.longer.released > 0) {
    out->Text("MALLOC: >").Number(lengths.exact.size(), 5);
    WriteLengthColumns(lengths.longer, lengths.longer_backed_bytes, lengths.longer_released_bytes,
                       out);
  }
  out->Text("MALLOC:  total");
  WriteLengthColumns(total, backed_bytes, released_bytes, out);
}

}  // namespace

void WriteStatsText(const HeapSnapshot& snapshot, int level, TextWriter* out) {
  out->Text(kRule);
  WriteSums(snapshot.totals, out);
  WriteMore(snapshot.totals, out);
  out->Text(kRule);
  if (level < 2) return;
  out->Flush();
  WriteClassLines(snapshot, out);
  out->Text(kRule);
  WriteLengthLines(snapshot.free_spans, out);
  out->Text(kRule);
}

}  // namespace tcmalloc
