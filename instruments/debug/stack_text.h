// SPDX-License-Identifier: BSD-3-Clause
// Writes the stacks of a report to stderr. Defined in stacks.cc and no_stacks.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// Writes one line per frame. With `names`, a line has the name of the function if the library knows
// it; that takes memory from the OS.
void WriteStack(const uintptr_t* frames, size_t depth, bool names);

// Writes the stack of the caller, without the allocator's frames, after a line of heading; nothing
// if it is unknown.
void WriteCurrentStack(const char* heading, bool names);

}  // namespace tcmalloc
