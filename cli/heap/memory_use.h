// SPDX-License-Identifier: BSD-3-Clause
// The use of the resident memory of a process: of its heap, and of the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heap/objects.h"
#include "heap/record.h"
#include "heap/statistics.h"
#include "image/image.h"
#include "image/process.h"
#include "image/resident.h"
#include "image/thread_places.h"

namespace cli {

// HeapUse: the use of the resident memory of a heap. It is computed from the span records, which
// have the use of each page, and the kernel's pagemap, which shows whether the page is resident.
// The process is not stopped: spans that change meanwhile count as `unsettled`.

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

// ProcessUse: the use of the resident memory of a process outside of the heap. A pure function of
// the kernel's mappings.

struct NamedBytes {
  std::string name;
  uint64_t bytes = 0;
};

// Resident bytes.
struct ProcessUse {
  uint64_t stacks = 0;
  uint64_t files = 0;         // pages of mapped files: code, constants
  uint64_t file_data = 0;     // pages of files that the process wrote to its own copy: variables
  uint64_t shared = 0;        // memory of memfd_create, shmget and similar calls
  uint64_t lazily_freed = 0;  // MADV_FREE, by the program
  uint64_t anonymous = 0;     // other memory of the process
  size_t num_stacks = 0;
  uint64_t anonymous_hugepages = 0;  // the part of `anonymous` in transparent hugepages
  uint64_t hugetlb = 0;              // not part of the resident memory
  // The largest mappings, largest first.
  std::vector<NamedBytes> largest_files;
  std::vector<NamedBytes> largest_file_data;
  std::vector<NamedBytes> largest_shared;
  std::vector<NamedBytes> largest_anonymous;

  uint64_t sum() const { return stacks + files + file_data + shared + lazily_freed + anonymous; }
};

struct ThreadFacts {
  size_t threads = 1;
  std::vector<ThreadStack> stacks;
  uint64_t stack_bytes = uint64_t{8} << 20;  // at most this much of a mapping is a stack
};

// Counts the mappings that are left in `pages`.
ProcessUse ReadProcessUse(ResidentPages& pages, const ThreadFacts& threads);

// ProcessFigures: the kernel's figures of a process, and those of its heap, at one moment. The
// process is not stopped.
struct ProcessFigures {
  int64_t time_ms = 0;  // since 1970
  ProcessInfo info;
  std::optional<Statistics> stats;  // none if it has another malloc, or has not allocated yet

  uint64_t figure(std::string_view name) const {
    return stats.has_value() ? stats->figure(name) : 0;
  }
  // Backed memory of the heap that holds no object in use.
  uint64_t overhead_bytes() const { return figure("actual_bytes") - figure("in_use_bytes"); }
};

// `target` is null for a process on another malloc. Throws Failure when the process has ended.
ProcessFigures ReadProcessFigures(pid_t pid, const Target* target);

}  // namespace cli
