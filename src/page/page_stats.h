// SPDX-License-Identifier: BSD-3-Clause
// What the page heap counts, as plain records. The page heap's lock guards the ones that are kept
// up to date; everyone else gets copies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/size_classes.h"
#include "base/units.h"
#include "os/memory/hugepages.h"
#include "page/free_spans.h"
#include "page/limit_watch.h"
#include "page/memory_limit.h"
#include "page/span.h"

namespace tcmalloc {

// SpanStore and AddressSpace keep these up to date where they happen.
struct PageCounts {
  // What the pages are used for, in bytes: system = the others and what is free.
  size_t system_bytes = 0;       // all that came from the OS
  size_t peak_system_bytes = 0;  // the most so far
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

// As PageHeap::GetStats returns it: small_span_bytes without the spans that are kept for shards.
struct PageStats : PageCounts {
  size_t free_backed_bytes = 0;  // with the spans that are kept for shards
  size_t kept_span_bytes = 0;    // their part of it
  size_t free_released_bytes = 0;
  size_t free_backed_spans = 0;
  size_t free_released_spans = 0;
  size_t backed_bytes = 0;  // what may be backed, records included: what limits are about
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

// What SpanStore::ListSpans tells of a span.
struct SpanView {
  const Span* span = nullptr;
  PageId first_page;
  Length num_pages;
  SpanState state = SpanState::kUnused;
  // In use for small objects, else kNone: also when it is in a span cache.
  SizeClass size_class = SizeClass::kNone;
};

}  // namespace tcmalloc
