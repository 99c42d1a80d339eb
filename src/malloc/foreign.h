// SPDX-License-Identifier: BSD-3-Clause
// Pointers that are no objects of ours: those of the C library's allocator are handed to it, the
// rest is reported.
#pragma once

#include <cstddef>

namespace tcmalloc {

struct Heap;

// `p` is not the start of an object of ours that is in use. Hands it to the C library's free, or
// aborts with one line.
void FreeForeign(Heap& heap, void* p);

// The same for realloc. Returns what the C library returned.
void* ReallocateForeign(Heap& heap, void* p, size_t size);

// The C library's answer, or 0 when `p` cannot be one of its objects.
size_t ForeignUsableSize(Heap& heap, void* p);

}  // namespace tcmalloc
