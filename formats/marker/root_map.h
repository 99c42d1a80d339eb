// SPDX-License-Identifier: BSD-3-Clause
// RootMap: decides which parts of a process's memory hold pointers that keep objects alive. It uses
// the lines of /proc/PID/maps and the process's threads, and does not read that memory.
//
// Memory that is always a root, because the program reaches it by name or runs on it:
// * data of the program and its libraries: private mappings of files that have an executable part,
//   and the anonymous mapping right after one (.bss);
// * the stack of each thread, from its stack pointer up to the end of its control block; for a
//   thread that runs on another stack (signals, coroutines), that stack, and the whole mapping of
//   its control block;
// * static thread-local storage, adjacent to the control block; for the initial thread, the whole
//   mapping that its thread pointer points into;
// * the data segment ("[heap]"): the C library's own malloc;
// * memory that the program has registered, if it can be read.
// Memory that is a root conditionally: all other private memory. It counts once a pointer into it
// is found: if the program keeps no pointer to memory that it mapped, that memory is leaked, and so
// are the objects that it points to. Arenas of the C library's malloc are found this way (its main
// arena is data, and points to the others).
// Memory that is never a root: the allocator's own memory; memory shared with other processes;
// devices; unreadable memory; the rest of a thread's stack; stacks of ended threads, which the C
// library keeps for new ones. But the first words of an ended thread's control block always count:
// through them the C library finds the thread's dynamic thread-local storage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/address_range.h"
#include "formats/marker/searched_memory.h"

namespace tcmalloc {

enum class RootKind : uint8_t {
  kData,          // of the program or a library
  kStack,         // of a live thread, with its control block
  kThreadData,    // a mapping with thread-local storage
  kControlBlock,  // the first words of an ended thread's control block
  kCLibraryHeap,  // the data segment
  kRegistered,    // by the program
  kConditional,
};

struct RootRange {
  uintptr_t start = 0;
  uintptr_t end = 0;
  RootKind kind = RootKind::kConditional;
};

// What the C library keeps for a thread that it has started, at the thread pointer (x86) or before
// it (aarch64), and the stack that contains it, without the guard pages. The address is the thread
// pointer.
struct ControlBlock {
  uintptr_t address = 0;
  uintptr_t stack_start = 0;
  uintptr_t stack_end = 0;
};

struct MemoryLayout {
  // The size of a pointer in the process.
  size_t word_bytes = sizeof(uintptr_t);
  // Sorted by address.
  const MappingLine* lines = nullptr;
  size_t num_lines = 0;
  WorldStop world;
  // The allocator's own memory: sorted, not overlapping.
  const AddressRange* own = nullptr;
  size_t num_own = 0;
  // The ranges that the program registered, in any order.
  const AddressRange* registered = nullptr;
  size_t num_registered = 0;
  // The control blocks of live and ended threads, sorted by address.
  const ControlBlock* control_blocks = nullptr;
  size_t num_control_blocks = 0;

  const MappingLine* end_of_lines() const { return lines + num_lines; }
  // The first line that ends after `address`; end_of_lines() when there is none.
  const MappingLine* FirstLineAfter(uintptr_t address) const {
    return std::upper_bound(lines, end_of_lines(), address,
                            [](uintptr_t a, const MappingLine& line) { return a < line.end; });
  }
};

struct RootMap {
  // In no order; may overlap.
  ScratchArray<RootRange> always;
  // Sorted. They neither overlap nor touch each other, and do not overlap `always`.
  ScratchArray<RootRange> conditional;
  // Stack pointers in the allocator's own memory: these threads run on an object of the heap.
  ScratchArray<uintptr_t> heap_stacks;
  // Only for MapRoots: the ranges that are not conditional.
  ScratchArray<AddressRange> excluded;
};

// Fills the empty `map`. False when there is no memory.
[[nodiscard]] bool MapRoots(const MemoryLayout& layout, ScratchMemory& memory, RootMap* map);

// The functions below decide which pages of a root a marker searches, and how. Cost: the time in
// which Memory finds backed pages.

// Calls f(const RootRange&) for the parts of a root that were touched, until f returns false; then
// returns false. Data that was not written since it was mapped points to no object.
template <typename Memory, typename F>
bool ForEachTouchedPart(Memory& memory, const RootRange& root, F f) {
  const bool is_data = root.kind == RootKind::kData || root.kind == RootKind::kCLibraryHeap;
  AddressRange rest = {root.start, root.end};
  AddressRange part;
  while (memory.TakeFirst(&rest, is_data ? WantedPages::kWritten : WantedPages::kAny, &part)) {
    if (!f(RootRange{part.start, part.end, root.kind})) return false;
  }
  return true;
}

struct RootChoice {
  bool from_globals = true;
  bool from_threads = true;
};

// Adds a root to a marker. False when there is no memory.
template <typename Marker>
[[nodiscard]] bool AddRoot(Marker& marker, const RootRange& root, RootChoice choice) {
  switch (root.kind) {
    case RootKind::kStack:
      return !choice.from_threads || marker.AddStack(root.start, root.end);
    case RootKind::kThreadData:
    case RootKind::kControlBlock:
      return !choice.from_threads || marker.AddRange(root.start, root.end);
    case RootKind::kData:
    case RootKind::kCLibraryHeap:
      return !choice.from_globals || marker.AddRange(root.start, root.end);
    case RootKind::kRegistered:
      return marker.AddRange(root.start, root.end, Marker::Pages::kAll);
    case RootKind::kConditional:
      return marker.AddConditional(root.start, root.end);
  }
  return true;
}

}  // namespace tcmalloc
