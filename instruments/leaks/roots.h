// SPDX-License-Identifier: BSD-3-Clause
// Roots: where a search for live objects begins, in a process whose other threads are stopped.
// formats/marker/root_map.h says what counts, and why.
//
// Role. Reads the process's mappings, leaves out the allocator's own memory, and finds the stacks
// of ended threads. All memory that it and the search use must come from the heap's source of its
// own records (`virtual_memory`), so that it is left out as well.
//
// Use. Construct it anywhere; call Gather in the function that runs while the world is stopped, and
// search there: the ranges are valid until threads run, and as long as no memory is unmapped except
// memory that is left out. Cost: some microseconds for each mapping.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/marker/root_map.h"
#include "instruments/annotations/program_annotations.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/leaks/marker.h"
#include "instruments/leaks/object_index.h"
#include "instruments/world_stop/world_stop.h"
#include "os/memory/mapped_array.h"
#include "os/memory_map.h"

namespace tcmalloc {

struct Heap;

class Roots {
 public:
  explicit Roots(Heap& heap);

  // Reads memory by `reader`, or by plain loads if it is null. kImpossible: /proc/self/maps cannot
  // be read, or there was no memory to list the allocator's own. Requires: the locks of the heap
  // and of `registered` are held as for fork, or no other thread uses them.
  LeakOutcome Gather(const WorldStop& world, RegisteredRoots& registered,
                     const MemoryReader* reader = nullptr);

  // False when the allocator's own memory is at addresses that other memory had when Gather read
  // the mappings. Then the search may have read words that it wrote itself. That can happen only if
  // the program's threads run and unmap memory. Cost: the list of the allocator's memory, and a
  // comparison with every mapping.
  bool StillValid();

  // The ranges in which every word is searched from the start. Registers are searched in addition:
  // see StoppedThread. The ranges may overlap, and their ends need not be aligned.
  const MappedArray<RootRange>& always() const { return always_; }

  // Ranges that are searched as a whole, as far as they are backed, once a pointer into them is
  // found. They are sorted and do not overlap.
  const ScratchArray<RootRange>& conditional() const { return map_.conditional; }

  // Stack pointers of threads that run on an object of the heap. That object is reachable and is
  // searched, wherever they point in it.
  const ScratchArray<uintptr_t>& heap_stacks() const { return map_.heap_stacks; }

  // Parts of the heap's memory that the program has protected, so that they cannot be read. They
  // are sorted and do not overlap. Mostly they are guard pages of stacks that are objects.
  const MappedArray<AddressRange>& unreadable() const { return unreadable_; }

 private:
  bool ReadMappings(LeakOutcome* outcome);
  bool ParseMappings();
  bool KeepTouched(ProgramMemory& memory);
  bool CollectUnreadable();
  // Calls f(line, part) for each part of a mapping that is in the ranges `own`, until f returns
  // false. Returns what f returned last, or true.
  template <typename F>
  bool ForEachOwnPart(const MappedArray<AddressRange>& own, F f) const;

  Heap& heap_;
  MappedArray<char> text_;
  MappedArray<MappingLine> lines_;
  MappedArray<AddressRange> own_;
  MappedArray<AddressRange> own_later_;
  MappedArray<AddressRange> unreadable_;
  MappedArray<AddressRange> registered_;
  CheckMemory scratch_;
  ScratchArray<ControlBlock> control_blocks_;
  RootMap map_;
  MappedArray<RootRange> always_;
};

// Sets `own` to the allocator's own memory, objects and records: sorted, not overlapping. Also for
// tests.
LeakOutcome CollectOwnMemory(Heap& heap, MappedArray<AddressRange>* own);

}  // namespace tcmalloc
