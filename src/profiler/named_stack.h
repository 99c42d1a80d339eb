// SPDX-License-Identifier: BSD-3-Clause
// A stack for people: the functions' names, by the symbol tables of the files they come from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// Writes a line for each frame to stderr: function and offset, file and offset in it; less where
// less is known. Reads /proc/self/maps and the symbols of each file. No lock may be held. Thread
// safety: any. Cost: some milliseconds, in memory from the system.
void WriteNamedStack(const uintptr_t* frames, size_t depth);

}  // namespace tcmalloc
