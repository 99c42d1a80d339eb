// SPDX-License-Identifier: BSD-3-Clause
// The text of malloc_stats. Its sums have the lines, and the words, that tools which read such
// texts of TCMalloc look for; what is ours alone stands below.
#include "runtime/stats_formats.h"

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
  WriteLine(out, "+", s.transfer_cache_bytes, "Bytes in transfer cache freelist");
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

// Nothing when there is no such limit and never was one that mattered.
void WriteLimit(TextWriter* out, size_t limit_bytes, const LimitWatch::Counts& counts,
                const char* kind) {
  if (limit_bytes == kNoLimit && counts.hits == 0 && counts.released_bytes == 0) return;
  const auto write_bytes = [out, kind](size_t bytes, const char* what) {
    out->Text("MALLOC:  ").Number(bytes, 13).Text(" (").Mebibytes(bytes, 7).Text(" MiB) ");
    out->Text(kind).Text(what).Text("\n");
  };
  write_bytes(limit_bytes == kNoLimit ? 0 : limit_bytes, " limit (0 for none)");
  out->Text("MALLOC:  ").Number(counts.hits, 13).Text("               Times that the ");
  out->Text(kind).Text(" limit was met\n");
  write_bytes(counts.released_bytes, " limit: bytes released because of it");
}

void WriteMore(const HeapStats& s, TextWriter* out) {
  out->Text("MALLOC:\n");
  WriteLine(out, " ", s.large_bytes, "Bytes in large objects");
  WriteCount(out, s.large_objects, "Large objects in use");
  WriteLine(out, " ", s.span_tail_bytes, "Bytes in span tails");
  WriteLine(out, " ", s.hole_bytes, "Bytes released to OS inside spans in use");
  WriteLine(out, " ", s.releasing_bytes, "Bytes on their way to OS");
  WriteLine(out, " ", s.thread_cache_array_bytes, "Bytes in arrays of thread caches");
  WriteCount(out, s.growths, "Times memory came from the system");
  WriteCount(out, s.releases, "Times memory went back to the system");
  WriteLine(out, " ", s.released_total_bytes, "Bytes released to OS so far");
  WriteCount(out, s.populations, "Times memory was populated ahead");
  out->Text("MALLOC:  Hugepages: ").Text(HugepageModeName(s.hugepages.mode)).Text("\n");
  if (s.hugepages.mode != HugepageMode::kNever) {
    WriteLine(out, " ", s.hugepage_bytes, "Bytes where hugepages were asked for");
    WriteCount(out, s.hugepages_broken, "Times hugepages in use were broken");
  }
  if (s.listens_to_pressure) {
    WriteCount(out, s.pressure_sources, "Sources of memory pressure");
    WriteCount(out, s.pressure_sources_failed, "Sources of memory pressure that failed");
    WriteCount(out, s.pressure_events, "Events of memory pressure");
    WriteCount(out, s.pressure_actions[0], "Times thread caches were emptied under pressure");
    WriteCount(out, s.pressure_actions[1], "Times all caches were emptied under pressure");
    WriteCount(out, s.pressure_actions[2], "Times memory went back under pressure");
  }
  if (s.large_allocations > 0) {
    WriteCount(out, s.large_allocations, "Allocations above the report threshold");
    WriteCount(out, s.large_allocation_reports, "Allocations that were reported");
  }
  WriteLimit(out, s.limits.hard_bytes, s.hard_limit, "hard");
  WriteLimit(out, s.limits.soft_bytes, s.soft_limit, "soft");
}

void WriteClass(size_t i, const SizeClassStats& s, TextWriter* out) {
  out->Text("MALLOC: ").Number(i, 5).Number(s.object_size, 9).Number(s.spans, 9);
  out->Number(s.in_use_objects, 13).Number(s.thread_cache_objects, 16);
  out->Number(s.transfer_cache_objects, 11).Number(s.central_objects, 10).Text("\n");
}

void WriteLength(const char* sign, size_t pages, const PageHeap::FreeSpanCounts::Count& count,
                 size_t mapped_bytes, size_t released_bytes, TextWriter* out) {
  if (count.mapped == 0 && count.released == 0) return;
  out->Text("MALLOC: ").Text(sign).Number(pages, 5).Number(count.mapped, 13);
  out->Mebibytes(mapped_bytes, 12).Number(count.released, 17);
  out->Mebibytes(released_bytes, 12).Text("\n");
}

void WriteTables(const HeapSnapshot& snapshot, TextWriter* out) {
  out->Text("MALLOC: class     size    spans       in use   thread caches   transfer   central\n");
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    if (snapshot.classes[i].spans > 0) WriteClass(i, snapshot.classes[i], out);
  }
  out->Text(kRule);
  out->Text("MALLOC:  pages   free spans         MiB   released spans         MiB\n");
  const PageHeap::FreeSpanCounts& lengths = snapshot.free_spans;
  for (size_t i = 0; i < lengths.exact.size(); ++i) {
    const PageHeap::FreeSpanCounts::Count& count = lengths.exact[i];
    const size_t span_bytes = (i + 1) * kPageSize;
    WriteLength(" ", i + 1, count, count.mapped * span_bytes, count.released * span_bytes, out);
  }
  WriteLength(">", lengths.exact.size(), lengths.longer, lengths.longer_mapped_bytes,
              lengths.longer_released_bytes, out);
  out->Text(kRule);
}

}  // namespace

void WriteStatsText(const HeapSnapshot& snapshot, int level, TextWriter* out) {
  out->Text(kRule);
  WriteSums(snapshot.totals, out);
  WriteMore(snapshot.totals, out);
  out->Text(kRule);
  if (level < 2) return;
  out->Flush();
  WriteTables(snapshot, out);
}

}  // namespace tcmalloc
