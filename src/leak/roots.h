// SPDX-License-Identifier: BSD-3-Clause
// Roots: where a search for live objects begins, in a process whose other threads stand still. What
// counts, and why: leak/root_map.h.
//
// Role. Reads the process's mappings, leaves out what is the allocator's own, and finds the stacks
// of ended threads. All memory that it and the search use must come from the heap's source of its
// own records (`virtual_memory`): then it is left out as well.
//
// Use. Construct it anywhere; Gather in the function that runs while the world is stopped, which
// also searches: the ranges are true until threads go on, and as long as nothing is unmapped but
// what is left out. Cost: some microseconds for each mapping.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leak/registered_roots.h"
#include "leak/root_map.h"
#include "os/backed_pages.h"
#include "os/mapped_array.h"
#include "os/world_stop.h"

namespace tcmalloc {

struct Heap;

class Roots {
 public:
  explicit Roots(Heap& heap);

  enum class Outcome : uint8_t {
    kDone,
    kNoMemory,
    kNoMappings,        // /proc/self/maps cannot be read
    kOwnMemoryUnknown,  // there was no memory for the list of it
  };
  // Reads the program's memory by `reader`, by plain loads where that is null. Requires: the locks
  // of the heap and of `registered` are held as for fork, or nobody else uses them.
  Outcome Gather(const WorldStop& world, RegisteredRoots& registered,
                 const MemoryReader* reader = nullptr);

  // False when memory of the allocator's own lies where something else was when Gather read the
  // mappings: what has been searched there may have been what the search itself wrote. Only where
  // the program's threads run, and unmap memory, can that be. Costs what the list of own memory
  // does, and a look at every mapping.
  bool StillValid();

  // To be searched from the start: every word of them. What is in registers comes on top: see
  // StoppedThread. They may overlap, and their ends are those of words only where it matters.
  const MappedArray<RootRange>& always() const { return always_; }

  // Each to be searched as a whole, as far as it is backed, once a pointer leads into it: sorted,
  // not overlapping.
  const MappedArray<RootRange>& conditional() const { return map_.conditional; }

  // Stack pointers of threads that run on an object of the heap: it is alive and to be searched,
  // however far into it they point.
  const MappedArray<uintptr_t>& heap_stacks() const { return map_.heap_stacks; }

  // What the program has protected of the heap's own memory, so that it cannot be read: sorted, not
  // overlapping. Guard pages of stacks that are objects, mostly.
  const MappedArray<AddressRange>& unreadable() const { return unreadable_; }

 private:
  bool ReadMappings(Outcome* outcome);
  bool ParseMappings();
  bool KeepBacked();
  bool CollectUnreadable();

  Heap& heap_;
  BackedPages backed_;
  MappedArray<char> text_;
  MappedArray<MappingLine> lines_;
  MappedArray<AddressRange> own_;
  MappedArray<AddressRange> own_later_;
  MappedArray<AddressRange> unreadable_;
  MappedArray<AddressRange> registered_;
  MappedArray<ControlBlock> control_blocks_;
  RootMap map_;
  MappedArray<RootRange> always_;
};

// Appends what the allocator itself has of the process's memory: its objects and records, sorted,
// not overlapping. For tests as well.
Roots::Outcome CollectOwnMemory(Heap& heap, MappedArray<AddressRange>* own);

}  // namespace tcmalloc
