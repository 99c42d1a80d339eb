// SPDX-License-Identifier: BSD-3-Clause
// Functions that empty caches and release free memory on request.
#pragma once

#include <cstddef>

namespace tcmalloc {

struct Heap;

// Moves all threads' caches to the central free lists (see Registry::FlushAll); returns the bytes
// moved.
size_t FlushThreadCaches(Heap& heap);

// Moves the empty spans that shards keep to the page heap; returns their bytes.
size_t FlushCentralCaches(Heap& heap);

// Calls both functions, in this order. Returns the larger of the two numbers, since the spans that
// shards keep usually hold the memory that just left the thread caches, which must not count twice.
size_t FlushCaches(Heap& heap);

// Flushes, then releases the free pages inside used spans (see HoleRelease), and the page heap's
// free memory except about `keep_bytes`. Returns the bytes released. No lock is held during a
// system call.
size_t Trim(Heap& heap, size_t keep_bytes);

}  // namespace tcmalloc
