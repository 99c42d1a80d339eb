// SPDX-License-Identifier: BSD-3-Clause
// Which parts of the process's memory hold pointers that keep objects alive: a decision about lines
// of /proc/self/maps, without a look at the memory itself.
//
// Always: what the program reaches by name or runs on.
//   * data of the program and its libraries: private mappings of files of which something is
//     executable, and the anonymous mapping right behind one (.bss);
//   * the stack of each thread, from its stack pointer to the end of the mapping, and where the
//     thread runs on another stack, all of the mapping that has its control block;
//   * the control block and the static thread-local storage: in the stack's mapping, or, for the
//     thread that the process began with, in the mapping that holds the thread pointer;
//   * the data segment ("[heap]"): the C library's own malloc;
//   * what the program has registered.
// If reached: other private memory that can be read: the program's own mappings, files that are no
// program's or library's, the arenas of the C library's malloc (main_arena, which is data, leads to
// them). It counts once a pointer into it is found: who maps memory and keeps no pointer to it has
// lost it, and what it points to.
// Never: the allocator's own memory; what is shared with other processes through a file or device;
// what cannot be read; stacks of threads that have ended, which the C library keeps for new ones,
// but for the control block's first words: through them it finds the thread's dynamic thread-local
// storage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/mapped_array.h"
#include "os/mapped_ranges.h"
#include "os/memory_map.h"
#include "os/world_stop.h"

namespace tcmalloc {

enum class RootKind : uint8_t {
  kData,          // of the program or a library; to be looked at only where it was written
  kStack,         // of a live thread, with what lies above it
  kThreadData,    // thread-local storage that is in no stack
  kControlBlock,  // the first words of a dead thread's
  kCLibraryHeap,  // the data segment
  kRegistered,    // by the program
  kIfReached,
};

struct RootRange {
  uintptr_t start = 0;
  uintptr_t end = 0;
  RootKind kind = RootKind::kIfReached;
};

struct MemoryPicture {
  // In the order of their addresses.
  const MappingLine* lines = nullptr;
  size_t num_lines = 0;
  const StoppedThread* threads = nullptr;
  size_t num_threads = 0;
  int process_id = 0;
  // The allocator's: sorted, not overlapping.
  const AddressRange* own = nullptr;
  size_t num_own = 0;
  // In any order.
  const AddressRange* registered = nullptr;
  size_t num_registered = 0;
  // Addresses of what look like the C library's control blocks of threads, live or not; sorted.
  const uintptr_t* control_blocks = nullptr;
  size_t num_control_blocks = 0;
};

// Appends the ranges of the picture to `ranges`; those that are if_reached do not overlap others.
// `heap_stacks` gets the stack pointers that lie in the allocator's own memory: their threads run
// on an object. False when there is no memory.
bool MapRoots(const MemoryPicture& picture, MappedArray<RootRange>* ranges,
              MappedArray<uintptr_t>* heap_stacks);

}  // namespace tcmalloc
