// SPDX-License-Identifier: BSD-3-Clause
// HeapStats: where every byte that came from the system is, as one value; and the same as text.
//
// While threads run, the parts are read one after the other: each is a figure that was true at some
// moment, and what was on its way between two tiers may be counted twice or not at all. When the
// program is quiet they are exact.
#pragma once

#include <cstddef>

#include "base/size_classes.h"
#include "base/text_writer.h"
#include "os/hugepages.h"
#include "page/limit_watch.h"
#include "page/memory_limit.h"

namespace tcmalloc {

struct Heap;

struct HeapStats {
  // Bytes. system = in_use + thread_cache + transfer_cache + central + span_tails + page_heap_free
  // + released.
  size_t system_bytes = 0;
  size_t in_use_bytes =
      0;  // objects that the program holds, rounded up to their size class or to pages
  size_t thread_cache_bytes = 0;
  size_t transfer_cache_bytes = 0;
  size_t central_bytes = 0;
  size_t span_tail_bytes = 0;  // behind the last object of a span
  size_t page_heap_free_bytes = 0;
  size_t released_bytes = 0;
  // The part of central_bytes and span_tail_bytes that went back to the system and was not handed
  // out since, at least (see HoleRelease). While memory is on its way, its objects are in use.
  size_t hole_bytes = 0;
  // Not part of system_bytes.
  size_t metadata_bytes = 0;

  size_t large_bytes = 0;  // the part of in_use_bytes that is in objects above kMaxSmallSize
  size_t large_objects = 0;
  size_t spans_in_use = 0;
  size_t thread_caches = 0;
  // Since the process began. Address space: mappings made, and what was in them, also where free
  // memory was unmapped again. Memory: times that the system put some behind pages, and took it
  // back; the difference of the totals is system_bytes - released_bytes - hole_bytes.
  size_t growths = 0;
  size_t reserved_total_bytes = 0;
  size_t commits = 0;
  size_t committed_total_bytes = 0;
  size_t releases = 0;
  size_t released_total_bytes = 0;
  HugepageSetting hugepages;
  size_t hugepage_bytes = 0;
  size_t hugepages_broken = 0;
  size_t populations = 0;

  // Settings as they are now.
  size_t thread_cache_limit_bytes = 0;  // of all thread caches together
  size_t min_thread_cache_bytes = 0;
  bool releases_at_once = false;

  MemoryLimits limits;
  LimitWatch::Counts hard_limit;
  LimitWatch::Counts soft_limit;
};

struct SizeClassStats {
  size_t object_size = 0;
  size_t spans = 0;
  size_t in_use_objects = 0;
  size_t thread_cache_objects = 0;
  size_t transfer_cache_objects = 0;
  size_t central_objects = 0;
};

// Takes each lock of the heap for a moment. Cost: microseconds, plus the walk over all thread
// caches.
HeapStats CollectStats(Heap& heap);
SizeClassStats CollectSizeClassStats(Heap& heap, SizeClass c);

// The text of malloc_stats: lines that begin with "MALLOC:". At level 2 also a line per size class
// in use.
void WriteStats(Heap& heap, int level, TextWriter* out);

// Writes the text to stderr.
void PrintStats(Heap& heap, int level);

}  // namespace tcmalloc
