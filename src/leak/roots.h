// SPDX-License-Identifier: BSD-3-Clause
// Roots: where a search for live objects begins, of a process whose other threads stand still. What
// counts and why: leak/root_map.h.
//
// Role. Reads the process's mappings, leaves out what is the heap's own, and finds what remains of
// ended threads. Its memory is `vm`'s, and so is left out if that is the heap's.
//
// Use: construct it anywhere, Gather in the function that runs while the world is stopped. Nothing
// may be unmapped between Gather and the search but memory from `vm`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leak/root_map.h"
#include "os/backed_pages.h"
#include "os/mapped_array.h"
#include "os/virtual_memory.h"
#include "os/world_stop.h"

namespace tcmalloc {

struct Heap;

class Roots {
 public:
  explicit Roots(VirtualMemory& vm);

  enum class Outcome : uint8_t { kDone, kNoMemory, kNoMappings, kOwnMemoryUnknown };

  // Requires: the locks of the heap are held, or nobody else uses it.
  Outcome Gather(const WorldStop& world, Heap& heap);

  // To be searched from the start. Every word of them can be read. Registers come on top: see
  // StoppedThread.
  const MappedArray<RootRange>& always() const { return always_; }

  // To be searched as a whole when a pointer leads into it: sorted, not overlapping. Not every page
  // has something behind it: ForEachBackedPart says which.
  const MappedArray<RootRange>& if_reached() const { return if_reached_; }

  // Stack pointers of threads that run on an object of the heap. That object is alive and to be
  // searched, however far into it they point.
  const MappedArray<uintptr_t>& heap_stacks() const { return heap_stacks_; }

  // Calls f(start, end) for the parts of a range that is_reached() has which are to be searched.
  template <typename F>
  void ForEachBackedPart(uintptr_t start, uintptr_t end, F f) {
    AddressRange rest = {start, end};
    for (AddressRange part; backed_.TakeFirst(&rest, BackedPages::Want::kAny, &part);) {
      f(part.start, part.end);
    }
  }

 private:
  VirtualMemory& vm_;
  BackedPages backed_;
  MappedArray<char> text_;
  MappedArray<MappingLine> lines_;
  MappedArray<AddressRange> own_;
  MappedArray<AddressRange> registered_;
  MappedArray<uintptr_t> control_blocks_;
  MappedArray<RootRange> ranges_;
  MappedArray<RootRange> always_;
  MappedArray<RootRange> if_reached_;
  MappedArray<uintptr_t> heap_stacks_;
};

}  // namespace tcmalloc
