// SPDX-License-Identifier: BSD-3-Clause
// The action at each level of memory pressure. No lock is held during a system call, and memory is
// released in slices: a thread that allocates meanwhile waits for one slice at most.
#pragma once

#include <cstddef>

namespace tcmalloc {

struct Heap;

// Level 1: flushes thread caches to the central free lists. Level 2: also returns the spans that
// shards keep to the page heap. Level 3: also releases free pages, and free pages inside spans in
// use, to the OS, unless the settings turn releasing off. Returns the bytes that the last of these
// steps moved, and counts the action. `level` is 1 to 3.
size_t ActOnPressure(Heap& heap, int level);

}  // namespace tcmalloc
