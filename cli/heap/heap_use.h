// SPDX-License-Identifier: BSD-3-Clause
// HeapUse: the use of the resident memory of a heap. It is computed from the span records, which
// have the use of each page, and the kernel's pagemap, which shows whether the page is resident.
// The process is not stopped: spans that change meanwhile count as `unsettled`.
#pragma once

#include <cstdint>
#include <vector>

#include "heap/objects.h"
#include "heap/statistics.h"
#include "image/resident.h"

namespace cli {

// The use of one size class. All members but the first are resident bytes.
struct ClassUse {
  uint64_t object_bytes = 0;
  uint64_t in_use = 0;
  uint64_t fragmentation = 0;
  uint64_t partial_spans = 0;
};

// Resident bytes.
struct HeapUse {
  uint64_t in_use = 0;  // of objects that the program holds
  uint64_t thread_caches = 0;
  // Free memory in spans with objects in use: beyond the spans that the objects would need if they
  // were packed, and in the last span of each size class in each shard.
  uint64_t fragmentation = 0;
  uint64_t partial_spans = 0;
  uint64_t sampled_spans = 0;  // the rest of pages that hold a single sampled object
  uint64_t free_pages = 0;     // backed free spans of the page heap
  uint64_t kept_spans = 0;
  uint64_t releasing = 0;
  uint64_t released = 0;  // resident although the library released it or never used it
  uint64_t metadata = 0;
  uint64_t unsettled = 0;

  // Not part of the sum: the part of `fragmentation` and `partial_spans` that malloc_trim could
  // release.
  uint64_t whole_free_pages = 0;
  // Bytes of objects in use that are not resident, because they were never touched or are swapped
  // out. The sum with `in_use` is Statistics' in_use_bytes.
  uint64_t untouched = 0;
  std::vector<ClassUse> classes;  // with spans, by number

  uint64_t sum() const {
    return in_use + thread_caches + fragmentation + partial_spans + sampled_spans + free_pages +
           kept_spans + releasing + released + metadata + unsettled;
  }
};

// Counts the heap's pages in `pages`. Throws BadImage when the heap changes meanwhile
// (ReadWhileItChanges), or is damaged.
HeapUse ReadHeapUse(const Target& target, const Statistics& stats, ResidentPages& pages);

// The contents of a size class's spans in one shard, and the resident part of these spans.
struct ClassInShard {
  uint64_t spans = 0;
  uint64_t used_objects = 0;         // in use or in thread caches
  uint64_t used_resident_bytes = 0;  // of them
  uint64_t free_resident_bytes = 0;
};
// Computes the use of a size class from its spans in each shard. `*use` gets its sums.
void AddClassUse(const SizeClassStatistics& stats, const std::vector<ClassInShard>& shards,
                 HeapUse* use);

}  // namespace cli
