// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stats.h"

#include <algorithm>

#include "os/log.h"
#include "runtime/heap.h"

namespace tcmalloc {
namespace {

size_t Difference(size_t a, size_t b) { return a > b ? a - b : 0; }

void WriteLine(TextWriter* out, const char* sign, size_t bytes, const char* what) {
  out->Text("MALLOC: ").Text(sign).Number(bytes, 13).Text(" (").Mebibytes(bytes, 7).Text(" MiB) ");
  out->Text(what).Text("\n");
}

void WriteCount(TextWriter* out, size_t count, const char* what) {
  out->Text("MALLOC:  ").Number(count, 13).Text("               ").Text(what).Text("\n");
}

constexpr const char kRule[] = "------------------------------------------------\n";
constexpr const char kSum[] = "MALLOC:   ------------\n";

// A chunk of text at a time: the whole would not fit on a small stack.
constexpr size_t kChunk = 2048;

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

void WriteTotals(Heap& heap, TextWriter* out) {
  const HeapStats s = CollectStats(heap);
  const size_t used = s.in_use_bytes + s.page_heap_free_bytes + s.central_bytes +
                      s.transfer_cache_bytes + s.thread_cache_bytes + s.span_tail_bytes +
                      s.metadata_bytes - s.hole_bytes;
  out->Text(kRule);
  WriteLine(out, " ", s.in_use_bytes, "Bytes in use by application");
  WriteLine(out, "+", s.page_heap_free_bytes, "Bytes in page heap freelist");
  WriteLine(out, "+", s.central_bytes, "Bytes in central cache freelist");
  WriteLine(out, "+", s.transfer_cache_bytes, "Bytes in transfer cache freelist");
  WriteLine(out, "+", s.thread_cache_bytes, "Bytes in thread cache freelists");
  WriteLine(out, "+", s.span_tail_bytes, "Bytes in span tails");
  WriteLine(out, "+", s.metadata_bytes, "Bytes in malloc metadata");
  WriteLine(out, "-", s.hole_bytes, "Bytes released to OS inside spans in use");
  out->Text(kSum);
  WriteLine(out, "=", used, "Actual memory used (physical + swap)");
  WriteLine(out, "+", s.released_bytes + s.hole_bytes, "Bytes released to OS (aka unmapped)");
  out->Text(kSum);
  WriteLine(out, "=", used + s.released_bytes + s.hole_bytes, "Virtual address space used");
  out->Text("MALLOC:\nMALLOC:  Hugepages: ").Text(HugepageModeName(s.hugepages.mode));
  out->Text(", max_ptes_none ").Number(s.hugepages.max_ptes_none).Text("\n");
  WriteCount(out, s.spans_in_use, "Spans in use");
  WriteCount(out, s.thread_caches, "Thread heaps in use");
  WriteCount(out, kPageSize, "Tcmalloc page size");
  WriteCount(out, s.growths, "Times memory came from the system");
  WriteCount(out, s.releases, "Times memory went back to the system");
  if (s.hugepages.mode != HugepageMode::kNever) {
    WriteLine(out, " ", s.hugepage_bytes, "Bytes where hugepages were asked for");
    WriteCount(out, s.hugepages_broken, "Times hugepages in use were broken");
  }
  WriteCount(out, s.populations, "Times memory was populated ahead");
  WriteLimit(out, s.limits.hard_bytes, s.hard_limit, "hard");
  WriteLimit(out, s.limits.soft_bytes, s.soft_limit, "soft");
  out->Text(kRule);
}

void WriteClassHeading(TextWriter* out) {
  out->Text("MALLOC: class     size    spans       in use   thread caches   transfer   central\n");
}

void WriteClass(Heap& heap, SizeClass c, TextWriter* out) {
  const SizeClassStats s = CollectSizeClassStats(heap, c);
  if (s.spans == 0) return;
  out->Text("MALLOC: ").Number(Index(c), 5).Number(s.object_size, 9).Number(s.spans, 9);
  out->Number(s.in_use_objects, 13).Number(s.thread_cache_objects, 16);
  out->Number(s.transfer_cache_objects, 11).Number(s.central_objects, 10).Text("\n");
}

}  // namespace

HeapStats CollectStats(Heap& heap) {
  HeapStats stats;
  const Registry::Totals caches = heap.registry.GetTotals();
  stats.thread_cache_bytes = caches.cached_bytes;
  stats.thread_caches = caches.caches;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const CentralFreeList& list = heap.central.free_list(c);
    stats.transfer_cache_bytes += heap.central.transfer_objects(c) * list.object_size();
    stats.central_bytes += list.free_objects() * list.object_size();
    stats.span_tail_bytes += list.tail_bytes();
    stats.spans_in_use += list.num_spans();
  }
  const PageHeap::Stats pages = heap.page_heap.GetStats();
  stats.system_bytes = pages.system_bytes - pages.metadata_span_bytes;
  stats.page_heap_free_bytes = pages.free_mapped_bytes + pages.releasing_bytes;
  stats.released_bytes = pages.free_released_bytes;
  stats.large_bytes = pages.large_span_bytes;
  stats.large_objects = pages.large_spans;
  stats.spans_in_use += pages.large_spans;
  stats.growths = pages.growths;
  stats.releases = pages.releases + heap.holes.releases();
  stats.released_total_bytes = pages.released_total_bytes + pages.unmapped_backed_bytes +
                               heap.holes.released_total_bytes();
  stats.reserved_total_bytes = pages.system_bytes + pages.unmapped_total_bytes;
  stats.commits = pages.commits;
  stats.releases_at_once = heap.page_heap.releasing() == PageHeap::Releasing::kEager;
  stats.hugepages = pages.hugepages;
  stats.hugepage_bytes = pages.hugepage_bytes;
  stats.hugepages_broken = pages.hugepages_broken;
  stats.populations = pages.populations;
  stats.limits = pages.limits;
  stats.hard_limit = pages.hard_limit;
  stats.soft_limit = pages.soft_limit;
  stats.in_use_bytes =
      pages.large_span_bytes +
      Difference(pages.small_span_bytes, stats.thread_cache_bytes + stats.transfer_cache_bytes +
                                             stats.central_bytes + stats.span_tail_bytes);
  // Not more than what it is a part of, also while both change.
  stats.hole_bytes = std::min(heap.holes.hole_bytes(), stats.central_bytes + stats.span_tail_bytes);
  stats.committed_total_bytes =
      Difference(stats.system_bytes, stats.released_bytes + stats.hole_bytes) +
      stats.released_total_bytes;
  stats.metadata_bytes = heap.arena.mapped_bytes() + pages.metadata_span_bytes;
  stats.thread_cache_limit_bytes = heap.registry.total_limit();
  stats.min_thread_cache_bytes = heap.registry.min_per_cache();
  return stats;
}

SizeClassStats CollectSizeClassStats(Heap& heap, SizeClass c) {
  const CentralFreeList& list = heap.central.free_list(c);
  SizeClassStats stats;
  stats.object_size = list.object_size();
  stats.spans = list.num_spans();
  stats.thread_cache_objects = heap.registry.CachedObjects(c);
  stats.transfer_cache_objects = heap.central.transfer_objects(c);
  stats.central_objects = list.free_objects();
  stats.in_use_objects =
      Difference(stats.spans * list.objects_per_span(),
                 stats.thread_cache_objects + stats.transfer_cache_objects + stats.central_objects);
  return stats;
}

void WriteStats(Heap& heap, int level, TextWriter* out) {
  WriteTotals(heap, out);
  if (level < 2) return;
  WriteClassHeading(out);
  for (size_t i = 1; i < kNumSizeClasses; ++i) WriteClass(heap, static_cast<SizeClass>(i), out);
  out->Text(kRule);
}

void PrintStats(Heap& heap, int level) {
  char buffer[kChunk];
  {
    TextWriter out(buffer, sizeof(buffer));
    WriteTotals(heap, &out);
    WriteToStderr(out.text());
  }
  if (level < 2) return;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    TextWriter out(buffer, sizeof(buffer));
    if (i == 1) WriteClassHeading(&out);
    WriteClass(heap, static_cast<SizeClass>(i), &out);
    WriteToStderr(out.text());
  }
  WriteToStderr(kRule);
}

}  // namespace tcmalloc
