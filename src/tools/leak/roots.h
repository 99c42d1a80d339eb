// SPDX-License-Identifier: BSD-3-Clause
// Roots: where a search for live objects begins, in a process whose other threads are stopped.
// tools/leak/root_map.h says what counts, and why.
//
// Role. Reads the process's mappings, leaves out the allocator's own memory, and finds the stacks
// of ended threads. All memory that it and the search use must come from the heap's source of its
// own records (`virtual_memory`): then it is left out as well.
//
// Use. Construct it anywhere; call Gather in the function that runs while the world is stopped, and
// search there: the ranges are valid until threads run, and as long as nothing is unmapped but
// memory that is left out. Cost: some microseconds for each mapping.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/memory/mapped_array.h"
#include "tools/leak/os/backed_pages.h"
#include "tools/leak/registered_roots.h"
#include "tools/leak/root_map.h"
#include "tools/world_stop/world_stop.h"

namespace tcmalloc {

struct Heap;

class Roots {
 public:
  explicit Roots(Heap& heap);

  enum class Outcome : uint8_t {
    kDone,
    kNoMemory,
    kNoMappings,        // /proc/self/maps cannot be read
    kOwnMemoryUnknown,  // there was no memory to list it
  };
  // Reads by `reader`; null: plain loads. Requires: the locks of the heap and of `registered` are
  // held as for fork, or no other thread uses them.
  Outcome Gather(const WorldStop& world, RegisteredRoots& registered,
                 const MemoryReader* reader = nullptr);

  // False when the allocator's own memory lies where something else was when Gather read the
  // mappings: the search may have read what it wrote itself. That can happen only where the
  // program's threads run and unmap memory. Cost: the list of own memory, and a look at every
  // mapping.
  bool StillValid();

  // To be searched from the start, every word. Registers come on top: see StoppedThread. The ranges
  // may overlap, and their ends need not be aligned.
  const MappedArray<RootRange>& always() const { return always_; }

  // Each is to be searched as a whole, as far as it is backed, once a pointer into it is found:
  // sorted, not overlapping.
  const MappedArray<RootRange>& conditional() const { return map_.conditional; }

  // Stack pointers of threads that run on an object of the heap: it is alive and to be searched,
  // wherever they point in it.
  const MappedArray<uintptr_t>& heap_stacks() const { return map_.heap_stacks; }

  // Parts of the heap's own memory that the program has protected, so that they cannot be read:
  // sorted, not overlapping. Mostly guard pages of stacks that are objects.
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

// Sets `own` to the allocator's own memory, objects and records: sorted, not overlapping. Also for
// tests.
Roots::Outcome CollectOwnMemory(Heap& heap, MappedArray<AddressRange>* own);

}  // namespace tcmalloc
