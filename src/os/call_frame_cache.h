// SPDX-License-Identifier: BSD-3-Clause
// The rules of frames (os/call_frame_info.h) for any address of the process, and a cache of them.
//
// Called by: the walk over a stack, in any context: it allocates nothing, takes no lock, and what
// it interrupts or is interrupted by may be itself. The cache is zero-filled memory that takes none
// of the machine's until it is used. Cost, with the rule in the cache: some 15 instructions for
// what is never unloaded, 250 for the rest; else a search in an object's tables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/call_frame_info.h"

namespace tcmalloc {

// The rule for the instruction at `pc`; kUnknown where there is none. Requires: `pc` is where a
// function of this thread is that has not returned, so that what it lies in is not unloaded
// meanwhile.
CallFrameRule CallFrameRuleAt(uintptr_t pc);

// Rules can be found for more than the object that this code lies in.
bool HasCallFramesOfAllObjects();

// `address` lies in the object that this code lies in.
bool InOwnObject(uintptr_t address);
// That is the program itself: the library is linked into it, and its functions lie among others.
bool OwnObjectIsProgram();

}  // namespace tcmalloc
