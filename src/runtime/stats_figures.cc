// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stats_formats.h"

namespace tcmalloc {
namespace {

using Kind = StatsFigure::Kind;

size_t OrZero(size_t limit_bytes) { return limit_bytes == kNoLimit ? 0 : limit_bytes; }

constexpr StatsFigure kFigures[] = {
    // The sums of the text, in its order.
    {"in_use_bytes", Kind::kGauge, "bytes",
     "Memory in objects that the program holds, each as large as the allocator made it.",
     [](const HeapStats& s) { return s.in_use_bytes; }},
    {"page_heap_free_bytes", Kind::kGauge, "bytes",
     "Memory in free runs of pages that has not gone back to the system.",
     [](const HeapStats& s) { return s.page_heap_free_bytes; }},
    {"central_cache_free_bytes", Kind::kGauge, "bytes",
     "Free memory in runs of pages that also hold objects in use.",
     [](const HeapStats& s) { return s.free_in_spans_bytes(); }},
    {"transfer_cache_free_bytes", Kind::kGauge, "bytes",
     "Free objects in batches kept for handing from thread to thread.",
     [](const HeapStats& s) { return s.transfer_cache_bytes; }},
    {"thread_cache_free_bytes", Kind::kGauge, "bytes", "Free objects in the caches of threads.",
     [](const HeapStats& s) { return s.thread_cache_bytes; }},
    {"metadata_bytes", Kind::kGauge, "bytes", "What the allocator keeps about its own state.",
     [](const HeapStats& s) { return s.metadata_bytes; }},
    {"actual_bytes", Kind::kGauge, "bytes", "All memory of the heap: the sum of the figures above.",
     [](const HeapStats& s) { return s.actual_bytes(); }},
    {"released_bytes", Kind::kGauge, "bytes",
     "Address space of the heap without memory behind it: given back, or never used.",
     [](const HeapStats& s) { return s.unmapped_bytes(); }},
    {"virtual_bytes", Kind::kGauge, "bytes", "All address space of the heap.",
     [](const HeapStats& s) { return s.virtual_bytes(); }},
    // Parts of these.
    {"large_in_use_bytes", Kind::kGauge, "bytes",
     "The part of in_use_bytes in objects above 256 KiB.",
     [](const HeapStats& s) { return s.large_bytes; }},
    {"span_tail_bytes", Kind::kGauge, "bytes",
     "What is left behind the last object of runs of pages in use.",
     [](const HeapStats& s) { return s.span_tail_bytes; }},
    {"released_in_spans_bytes", Kind::kGauge, "bytes",
     "The part of released_bytes that lies between objects in use.",
     [](const HeapStats& s) { return s.hole_bytes; }},
    {"releasing_bytes", Kind::kGauge, "bytes",
     "The part of page_heap_free_bytes that is being given back at the moment.",
     [](const HeapStats& s) { return s.releasing_bytes; }},
    {"thread_cache_array_bytes", Kind::kGauge, "bytes",
     "The part of metadata_bytes that is the pointers in caches of threads.",
     [](const HeapStats& s) { return s.thread_cache_array_bytes; }},
    {"hugepage_bytes", Kind::kGauge, "bytes",
     "Address space for which the system was asked for hugepages.",
     [](const HeapStats& s) { return s.hugepage_bytes; }},
    {"page_size_bytes", Kind::kGauge, "bytes", "The page of the allocator.",
     [](const HeapStats&) { return kPageSize; }},
    {"thread_cache_limit_bytes", Kind::kGauge, "bytes",
     "What the caches of all threads may hold together.",
     [](const HeapStats& s) { return s.thread_cache_limit_bytes; }},
    {"hard_limit_bytes", Kind::kGauge, "bytes",
     "The hard limit on actual_bytes; 0 when there is none.",
     [](const HeapStats& s) { return OrZero(s.limits.hard_bytes); }},
    {"soft_limit_bytes", Kind::kGauge, "bytes",
     "The soft limit on actual_bytes; 0 when there is none.",
     [](const HeapStats& s) { return OrZero(s.limits.soft_bytes); }},
    // Numbers of things.
    {"large_objects", Kind::kGauge, "", "Objects above 256 KiB that the program holds.",
     [](const HeapStats& s) { return s.large_objects; }},
    {"spans_in_use", Kind::kGauge, "", "Runs of pages that hold objects in use.",
     [](const HeapStats& s) { return s.spans_in_use; }},
    {"thread_caches", Kind::kGauge, "", "Threads that have a cache.",
     [](const HeapStats& s) { return s.thread_caches; }},
    // What happened since the process began.
    {"growths", Kind::kCounter, "", "Times that address space came from the system.",
     [](const HeapStats& s) { return s.growths; }},
    {"reserved_bytes", Kind::kCounter, "bytes", "Address space that came from the system.",
     [](const HeapStats& s) { return s.reserved_total_bytes; }},
    {"commits", Kind::kCounter, "", "Times that memory was put behind address space.",
     [](const HeapStats& s) { return s.commits; }},
    {"committed_bytes", Kind::kCounter, "bytes", "Memory that was put behind address space.",
     [](const HeapStats& s) { return s.committed_total_bytes; }},
    {"releases", Kind::kCounter, "", "Times that memory went back to the system.",
     [](const HeapStats& s) { return s.releases; }},
    {"given_back_bytes", Kind::kCounter, "bytes", "Memory that went back to the system.",
     [](const HeapStats& s) { return s.released_total_bytes; }},
    {"populations", Kind::kCounter, "",
     "Times that the system was asked for memory ahead of its first use.",
     [](const HeapStats& s) { return s.populations; }},
    {"hugepages_broken", Kind::kCounter, "",
     "Times that memory went back out of the middle of hugepages in use.",
     [](const HeapStats& s) { return s.hugepages_broken; }},
    {"hard_limit_hits", Kind::kCounter, "", "Requests that the hard limit stood in the way of.",
     [](const HeapStats& s) { return s.hard_limit.hits; }},
    {"hard_limit_given_back_bytes", Kind::kCounter, "bytes",
     "Memory that went back to the system because of the hard limit.",
     [](const HeapStats& s) { return s.hard_limit.released_bytes; }},
    {"soft_limit_hits", Kind::kCounter, "", "Requests that the soft limit stood in the way of.",
     [](const HeapStats& s) { return s.soft_limit.hits; }},
    {"soft_limit_given_back_bytes", Kind::kCounter, "bytes",
     "Memory that went back to the system because of the soft limit.",
     [](const HeapStats& s) { return s.soft_limit.released_bytes; }},
    {"large_allocations", Kind::kCounter, "",
     "Allocations from the threshold of reports on, 1 GiB if not set otherwise.",
     [](const HeapStats& s) { return s.large_allocations; }},
    {"large_allocation_reports", Kind::kCounter, "", "Those of them that were reported.",
     [](const HeapStats& s) { return s.large_allocation_reports; }},
};

}  // namespace

StatsFigures AllStatsFigures() {
  return {kFigures, kFigures + sizeof(kFigures) / sizeof(kFigures[0])};
}

}  // namespace tcmalloc
