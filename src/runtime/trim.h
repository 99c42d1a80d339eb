// SPDX-License-Identifier: BSD-3-Clause
// Giving back on request what the heap holds free.
#pragma once

#include <cstddef>

namespace tcmalloc {

struct Heap;

// Moves the calling thread's cache and the transfer caches to the central free lists, whose empty
// spans go to the page heap; returns the bytes moved out of the two.
size_t FlushCaches(Heap& heap);

// Flushes, then gives the page heap's free memory back to the system, all but about `keep_bytes`.
// Returns the bytes that went back. No lock is held over a system call.
size_t Trim(Heap& heap, size_t keep_bytes);

}  // namespace tcmalloc
