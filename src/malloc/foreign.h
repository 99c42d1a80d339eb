// SPDX-License-Identifier: BSD-3-Clause
// Foreign pointers: addresses that are not the start of an object of this heap. Objects of the C
// library's allocator are forwarded to it; for others the process aborts with one line that says
// what the address is (central/misuse.h). Called by the slow paths of free, realloc and
// malloc_usable_size, with no lock held. Cost: well under a microsecond, or a read of
// /proc/self/maps for an address near a stack; plus the cost of the C library's function.
#pragma once

#include <cstddef>

namespace tcmalloc {

struct Heap;

// Passes `p` to the C library's free, or aborts. Requires: `p` is not the start of an object in
// use.
void FreeForeign(Heap& heap, void* p);

// As FreeForeign, for realloc. Returns the C library's result.
void* ReallocateForeign(Heap& heap, void* p, size_t size);

// The functions of a stray child (process/fork.h). The first returns an object of the C
// library, or null.
void* AllocateInStrayChild(size_t size, size_t alignment);
// Frees an object of the C library; leaves a guarded sample as it is. A mistake of the program is
// not reported. Requires: `p` is on no page of the heap.
void FreeInStrayChild(const Heap& heap, void* p);

// Returns the C library's result, or 0 if `p` cannot be one of its objects.
size_t ForeignUsableSize(Heap& heap, void* p);

}  // namespace tcmalloc
