// SPDX-License-Identifier: BSD-3-Clause
// RootMap: which parts of the process's memory hold pointers that keep objects alive. Decided by
// the lines of /proc/self/maps and the threads, without reading that memory.
//
// Always, because the program reaches it by name or runs on it:
// * data of the program and its libraries: private mappings of files that have an executable part,
//   and the anonymous mapping right after one (.bss);
// * the stack of each thread, from its stack pointer up to the end of its control block; of a
//   thread that runs on another stack (signals, coroutines), that stack, and the whole mapping of
//   its control block;
// * static thread-local storage, adjacent to the control block; of the initial thread, the whole
//   mapping that its thread pointer points into;
// * the data segment ("[heap]"): the C library's own malloc;
// * what the program has registered, if it can be read.
// Conditionally: all other private memory. It counts once a pointer into it is found: if the
// program keeps no pointer to memory that it mapped, that memory is leaked, with what it points to.
// Arenas of the C library's malloc are found this way (its main arena is data, and points to the
// others).
// Never: the allocator's own memory; memory shared with other processes; devices; unreadable
// memory; the rest of a thread's stack; stacks of ended threads, which the C library keeps for new
// ones. But the first words of an ended thread's control block always count: through them the C
// library finds the thread's dynamic thread-local storage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "os/memory/mapped_array.h"
#include "os/memory/mapped_ranges.h"
#include "os/memory_map.h"
#include "tools/world_stop/memory_reader.h"
#include "tools/world_stop/world_stop.h"

namespace tcmalloc {

enum class RootKind : uint8_t {
  kData,          // of the program or a library
  kStack,         // of a live thread, with its control block
  kThreadData,    // a mapping with thread-local storage
  kControlBlock,  // the first words of an ended thread's
  kCLibraryHeap,  // the data segment
  kRegistered,    // by the program
  kConditional,
};

struct RootRange {
  uintptr_t start = 0;
  uintptr_t end = 0;
  RootKind kind = RootKind::kConditional;
};

// What the C library keeps for a thread that it has started, at the thread pointer, and the stack
// that contains it, without the guard pages.
struct ControlBlock {
  uintptr_t address = 0;
  uintptr_t stack_start = 0;
  uintptr_t stack_end = 0;
};

struct MemoryLayout {
  // Reads the program's memory; null: plain loads.
  const MemoryReader* reader = nullptr;
  // Sorted by address.
  const MappingLine* lines = nullptr;
  size_t num_lines = 0;
  WorldStop world;
  // The allocator's own memory: sorted, not overlapping.
  const AddressRange* own = nullptr;
  size_t num_own = 0;
  // Registered by the program, in any order.
  const AddressRange* registered = nullptr;
  size_t num_registered = 0;
  // Of live and ended threads, sorted by address.
  const ControlBlock* control_blocks = nullptr;
  size_t num_control_blocks = 0;

  const MappingLine* end_of_lines() const { return lines + num_lines; }
  // The first line that ends after `address`; end_of_lines() when there is none.
  const MappingLine* FirstLineAfter(uintptr_t address) const {
    return std::upper_bound(lines, end_of_lines(), address,
                            [](uintptr_t a, const MappingLine& line) { return a < line.end; });
  }
};

// Calls f(start, end) for the parts of [start, end) outside the `n` ranges, which are sorted and do
// not overlap.
template <typename F>
void ForEachOutside(uintptr_t start, uintptr_t end, const AddressRange* ranges, size_t n, F f) {
  const AddressRange* const last = ranges + n;
  const AddressRange* next =
      std::upper_bound(ranges, last, start,
                       [](uintptr_t address, const AddressRange& r) { return address < r.end; });
  while (start < end) {
    const uintptr_t stop = next == last ? end : std::min(end, next->start);
    if (start < stop) f(start, stop);
    if (stop == end) return;
    start = next->end;
    ++next;
  }
}

struct RootMap {
  explicit RootMap(VirtualMemory& vm)
      : always(vm), conditional(vm), heap_stacks(vm), excluded(vm) {}

  void Clear() {
    always.Clear();
    conditional.Clear();
    heap_stacks.Clear();
    excluded.Clear();
  }

  // In no order; may overlap.
  MappedArray<RootRange> always;
  // Sorted. They neither overlap nor touch each other, and do not overlap `always`.
  MappedArray<RootRange> conditional;
  // Stack pointers in the allocator's own memory: these threads run on an object of the heap.
  MappedArray<uintptr_t> heap_stacks;
  // For MapRoots only: what is not conditional.
  MappedArray<AddressRange> excluded;
};

// Fills the empty `map`. False when there is no memory.
[[nodiscard]] bool MapRoots(const MemoryLayout& layout, RootMap* map);

}  // namespace tcmalloc
