// SPDX-License-Identifier: BSD-3-Clause
// The order of locks: a thread that holds a lock may take only locks of higher rank (further down).
// Debug builds check every acquisition. Two locks of one rank are never held together, except all
// of them around fork.
//
// So fork does not deadlock. It takes the locks in the order of the ranks, and those of one rank in
// any order. If it waits for a lock, the owner waits at most for a lock of higher rank, which fork
// does not have yet; so does the owner of that one. The locks from kFirstLeaf on are taken last, in
// any order: their owners take no other lock. Locks of the C library and of the program have no
// rank: process/fork.cc has the argument for those.
#pragma once

#include <cstdint>

namespace tcmalloc {

enum class LockRank : uint8_t {
  kInit,          // building the heap, once
  kRegistry,      // the list of thread caches, their lifetimes and limits
  kShards,        // the set of shards, and of size classes in each
  kShard,         // the spans of one size class in one shard, or its kept spans
  kHoles,         // threads that are releasing free pages inside used spans
  kPageHeap,      // free spans, span records
  kMetadata,      // the metadata arena
  kBreak,         // the end of the data segment, during sbrk
  kMappedRanges,  // the list of mapped anonymous memory
  kFileMemory,    // memory that is not anonymous: the mapped part of a file, the list of ranges
  kCallbacks,     // the program's functions: for large allocations, for memory pressure
  kSamples,       // sampled allocations
  kGuarded,       // the slots of guarded samples that are in use
  kProfile,       // one part of the heap profiler's table of objects in use
  kFreeQueue,     // freed objects of the debug libraries
  kLeaks,         // objects and memory that the program registered with the leak checker
  kCount,
};

inline constexpr LockRank kFirstLeaf = LockRank::kCallbacks;

}  // namespace tcmalloc
