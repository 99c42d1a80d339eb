// SPDX-License-Identifier: BSD-3-Clause
// The order in which locks are taken: a thread that holds a lock may take only locks of higher rank
// (further down). Debug builds check every acquisition. Locks of one rank (the size classes' locks)
// are never held together.
#pragma once

#include <cstdint>

namespace tcmalloc {

enum class LockRank : uint8_t {
  kInit,             // building the heap, once
  kRegistry,         // the list of thread caches, their lifetimes and limits
  kShards,           // which shards the central tier has, and which size classes they have
  kCentral,          // the spans of one size class in one shard
  kHoles,            // which threads are giving back memory of spans in use
  kSpanCache,        // short spans that one shard keeps for its next use
  kPageHeap,         // free spans, span records
  kMetadata,         // the metadata arena
  kBreak,            // the end of the data segment, over sbrk
  kMappedRanges,     // what anonymous memory has been mapped
  kFileSpace,        // what of a file or device is mapped
  kMemoryRanges,     // what memory is not anonymous
  kReports,          // whom to tell about large allocations
  kSamples,          // the samples of allocations
  kPressure,         // who is told about memory pressure
  kProfile,          // the objects in use, in one part of the heap profiler's table
  kLeaks,            // what the program told the leak checker
  kRegisteredRoots,  // what memory the program says holds pointers
  kCount,
};

}  // namespace tcmalloc
