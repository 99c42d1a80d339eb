// SPDX-License-Identifier: BSD-3-Clause
// Giving back on request what the heap holds free.
#pragma once

#include <cstddef>

namespace tcmalloc {

struct Heap;

// Moves all threads' caches to the central free lists (see Registry::FlushAll); returns the bytes
// moved.
size_t FlushThreadCaches(Heap& heap);

// Moves the empty spans that shards keep to the page heap; returns their bytes.
size_t FlushCentralCaches(Heap& heap);

// Both, one after the other; returns the larger of the two numbers: what shards keep comes from
// thread caches as a rule, and is not to count twice.
size_t FlushCaches(Heap& heap);

// Flushes, then gives back to the system what free objects in spans in use have to themselves (see
// HoleRelease), and the page heap's free memory, all of that but about `keep_bytes`. Returns the
// bytes that went back. No lock is held over a system call.
size_t Trim(Heap& heap, size_t keep_bytes);

}  // namespace tcmalloc
