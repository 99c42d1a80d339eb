// SPDX-License-Identifier: BSD-3-Clause
// The slow paths of the entry points: first use, empty and full bins, large objects, foreign and
// invalid pointers. They never set errno or throw: out of memory is a null pointer (oom_policy.h).
// No lock may be held.
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "base/size_classes.h"

namespace tcmalloc {

// The largest request, as pointer differences must not overflow. Larger ones fail.
inline constexpr size_t kMaxRequest = static_cast<size_t>(PTRDIFF_MAX);

// Allocates an object of at least `size` bytes; null without memory.
TC_SLOW_PATH void* AllocateSlow(size_t size);

// AllocateSlow with an object at a multiple of `alignment`, a power of two.
void* AllocateAligned(size_t size, size_t alignment);

// The bytes of an object that AllocateAligned would return; 0 if there can be none.
size_t AllocationSize(size_t size, size_t alignment);

// Allocates `size` bytes that are zero. Does not clear fresh memory, which is zero.
void* AllocateZeroed(size_t size);

TC_SLOW_PATH void FreeSlow(void* p);

// Free `p` with the size, and the alignment, that the program says it requested. Accept null with
// any. Abort if the object is of another size class or, for a large one, has another number of
// pages; and if `alignment` is not a power of two, or the address is not a multiple of it.
TC_SLOW_PATH void FreeSizedSlow(void* p, size_t size);
void FreeSizedAligned(void* p, size_t size, size_t alignment);

// Like realloc, for p != null and size > 0. Null without memory; then `p` is unchanged.
void* Reallocate(void* p, size_t size);

// Bytes of the object at `p` that the program may use; 0 for null, and for an address that is
// neither an object of this heap nor of the C library. Aborts if `p` is an object's address except
// for its upper bits, which no address has.
size_t UsableSize(void* p);

}  // namespace tcmalloc
