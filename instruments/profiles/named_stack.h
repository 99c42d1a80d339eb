// SPDX-License-Identifier: BSD-3-Clause
// Writes a readable call stack, with function names from the symbol tables of the files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// Writes a line for each frame to stderr: the function and the offset in it, the file and the
// offset in it, as far as they are known. Reads /proc/self/maps and the symbols of each file.
// Requires: no lock is held. Thread safety: any thread. Cost: some milliseconds, in memory from the
// system.
void WriteNamedStack(const uintptr_t* frames, size_t depth);

}  // namespace tcmalloc
