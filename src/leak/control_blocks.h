// SPDX-License-Identifier: BSD-3-Clause
// Stacks of threads, live and ended, told by the control blocks that glibc puts at their upper ends
// (x86). It keeps stacks of ended threads for new ones, and what is left on them is no life sign of
// anything.
//
// A control block is known by its own address in two places, and by two secrets of the process that
// glibc copies from thread to thread; where its stack lies it says itself. Where nothing of that
// sort is found, as with other C libraries and on other machines, nothing is known, and no stack is
// taken for dead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leak/root_map.h"
#include "os/backed_pages.h"
#include "os/mapped_array.h"

namespace tcmalloc {

// Reads the block of a thread that is, or may be, at `address`; no address from `limit` on is read.
// False when there is none. `sample` is the control block of a live thread. The memory is read by
// `reader`, by plain loads where that is null.
bool ReadControlBlock(uintptr_t address, uintptr_t limit, uintptr_t sample, ControlBlock* block,
                      const MemoryReader* reader = nullptr);

// Fills the empty `blocks` with those of the live threads and of those that ended: sorted. Of
// `layout` everything else must be there. Requires: nothing of it changes, or the layout has a
// reader. False when there is no
// memory. Cost: a look at every cache line of mappings that a guard page precedes.
[[nodiscard]] bool FindControlBlocks(const MemoryLayout& layout, BackedPages* backed,
                                     MappedArray<ControlBlock>* blocks);

}  // namespace tcmalloc
