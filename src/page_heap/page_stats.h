// SPDX-License-Identifier: BSD-3-Clause
// The counts of the page heap, as plain records. The page heap's lock guards its own; other code
// gets copies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/size_classes.h"
#include "base/units.h"
#include "os/memory/virtual_memory.h"
#include "page_heap/free_spans.h"
#include "page_heap/memory_limit.h"
#include "page_heap/span.h"

namespace tcmalloc {

// SpanStore and AddressSpace update these.
struct PageCounts {
  // The use of pages, in bytes: system_bytes is the sum of the others, without the peak, and of the
  // free bytes.
  size_t system_bytes = 0;  // from the OS
  size_t peak_system_bytes = 0;
  size_t releasing_bytes = 0;
  size_t small_span_bytes = 0;
  size_t large_span_bytes = 0;
  size_t metadata_span_bytes = 0;  // see SpanStore::TakeForMetadata
  size_t large_spans = 0;
  // Since the heap was made.
  size_t growths = 0;   // mappings made
  size_t releases = 0;  // slices released
  size_t released_total_bytes = 0;
  size_t commits = 0;  // times that released pages were backed
  // Free memory that was unmapped: all, and the backed part.
  size_t unmapped_total_bytes = 0;
  size_t unmapped_backed_bytes = 0;
  size_t hugepages_split = 0;  // slices released that split a hugepage
  size_t prefaults = 0;        // see AddressSpace::Prefault
  size_t moves = 0;            // see AddressSpace::Move
};

// As PageHeap::GetStats returns it: the bytes and numbers of spans in use without those that are
// kept for shards; those of large objects also without the spans of sampled small objects.
struct PageStats : PageCounts {
  // Sampled small objects, their bytes, and the bytes of their spans: see SampledObjects.
  size_t sampled_objects = 0;
  size_t sampled_bytes = 0;
  size_t sampled_span_bytes = 0;
  size_t free_backed_bytes = 0;  // with the spans that are kept for shards
  size_t kept_span_bytes = 0;    // their part of it
  size_t free_released_bytes = 0;
  size_t free_backed_spans = 0;
  size_t free_released_spans = 0;
  size_t backed_bytes = 0;  // what may be backed, metadata included: the limits bound this
  HugepageSetting hugepages;
  size_t hugepage_bytes = 0;  // where hugepages were asked for
  MemoryLimits limits;
  LimitWatch::Counts hard_limit;
  LimitWatch::Counts soft_limit;
};

// The number of free spans of each length, spans that are kept for shards included: the sum of
// their bytes is free_backed_bytes and free_released_bytes.
struct FreeSpanCounts {
  struct Count {
    uint32_t backed = 0;
    uint32_t released = 0;
  };
  std::array<Count, FreeSpans::kMaxExactPages> exact;  // exact[i]: of i + 1 pages
  // Longer ones.
  Count longer;
  size_t longer_backed_bytes = 0;
  size_t longer_released_bytes = 0;
};

// A span, as SpanStore::ListSpans returns it.
struct SpanView {
  const Span* span = nullptr;
  PageId first_page;
  Length num_pages;
  SpanState state = SpanState::kUnused;
  // Of a span in use for small objects; else, also in a span cache, kNone.
  SizeClass size_class = SizeClass::kNone;
  // Of a large object, or a sampled small one: Span::object_bytes.
  size_t object_bytes = 0;
};

// SampledObjects: how many small objects of each size class have a span of their own because they
// are sampled (Span::sampled_class). The page heap counts such a span like that of a large object;
// statistics count the object as one of its class, and the rest of its pages as the tail of a span.
//
// Called by: PageHeap, when such a span is handed out and when it is freed; nothing else changes
// it. Thread safety: any. Cost: two atomic additions, which are small beside the rest of a sample.
class SampledObjects {
 public:
  void Add(SizeClass c) {
    of_class_[Index(c)].Add(1);
    all_.Add(1);
  }
  void Remove(SizeClass c) {
    of_class_[Index(c)].Subtract(1);
    all_.Subtract(1);
  }

  size_t of_class(SizeClass c) const { return of_class_[Index(c)].value(); }
  // Racy: the sum of the others while no thread adds or removes.
  size_t all() const { return all_.value(); }

 private:
  std::array<SharedCounter, kNumSizeClasses> of_class_;
  SharedCounter all_;
};

}  // namespace tcmalloc
