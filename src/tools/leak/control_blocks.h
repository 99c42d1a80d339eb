// SPDX-License-Identifier: BSD-3-Clause
// Finds the stacks of live and ended threads by the control blocks that glibc puts at their upper
// ends (x86). glibc keeps the stacks of ended threads for new ones, and pointers left on them keep
// nothing alive.
//
// A control block has its own address at two places, and two secrets of the process that glibc
// copies from thread to thread. It says where its stack lies. Where no block is found, as with
// other C libraries and on other machines, no stack counts as dead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/memory/mapped_array.h"
#include "tools/leak/os/backed_pages.h"
#include "tools/leak/root_map.h"

namespace tcmalloc {

// Reads the control block that may be at `address`; reads nothing from `limit` on. False when there
// is none. `sample` is the control block of a live thread. Reads by `reader`; null: plain loads.
bool ReadControlBlock(uintptr_t address, uintptr_t limit, uintptr_t sample, ControlBlock* block,
                      const MemoryReader* reader = nullptr);

// Fills the empty `blocks`, sorted, with the control blocks of live and ended threads. Requires:
// all other fields of `layout` are set, and the memory does not change or the layout has a reader.
// False when there is no memory. Cost: a look at every cache line of mappings that follow a guard
// page.
[[nodiscard]] bool FindControlBlocks(const MemoryLayout& layout, BackedPages* backed,
                                     MappedArray<ControlBlock>* blocks);

}  // namespace tcmalloc
