// SPDX-License-Identifier: BSD-3-Clause
// What is done at each level of memory pressure. No lock is held over a system call, and memory
// goes back in slices, so that nobody who allocates meanwhile waits for more than one.
#pragma once

#include <cstddef>

namespace tcmalloc {

struct Heap;

// Level 1: what threads keep goes to the central lists. Level 2: also what shards keep, to the page
// heap. Level 3: also free pages to the system, then what free objects have of spans in use.
// Returns the bytes that moved on: of the last tier that was emptied. Counts it. `level` is 1 to 3.
size_t ActOnPressure(Heap& heap, int level);

}  // namespace tcmalloc
