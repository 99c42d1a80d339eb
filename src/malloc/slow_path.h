// SPDX-License-Identifier: BSD-3-Clause
// What the entry points do when the fast path cannot: first use, empty and full bins, large
// objects, foreign and bad pointers. Nothing here sets errno or throws: out of memory is a null
// pointer (see oom_policy.h).
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "base/size_classes.h"

namespace tcmalloc {

// The largest request; larger ones fail. What pointer differences can express.
inline constexpr size_t kMaxRequest = static_cast<size_t>(PTRDIFF_MAX);

// An object of at least `size` bytes; null when there is none to be had.
TC_SLOW_PATH void* AllocateSlow(size_t size);

// The same at a multiple of `alignment`, a power of two.
void* AllocateAligned(size_t size, size_t alignment);

// The bytes that such an object has; 0 when there can be none.
size_t AllocationSize(size_t size, size_t alignment);

// The same as malloc of `size`, all bytes zero. Does not clear what is zero already.
void* AllocateZeroed(size_t size);

TC_SLOW_PATH void FreeSlow(void* p);

// Frees `p`, which the program says it asked for with `size` and, where it said so then,
// `alignment`. Null is no misuse, whatever is said about it. Aborts when the object is of another
// size class, or a large one of another number of pages, and when `alignment` is no power of two or
// more than the address has.
TC_SLOW_PATH void FreeSizedSlow(void* p, size_t size);
void FreeSizedAligned(void* p, size_t size, size_t alignment);

// As realloc for p != null and size > 0. Null, and `p` untouched, when there is no memory.
void* Reallocate(void* p, size_t size);

// Bytes that the program may use in the object at `p`; 0 for null and for what is not an object of
// ours or of the C library's. Aborts when only upper bits, which addresses do not have, tell `p`
// from one of ours.
size_t UsableSize(void* p);

}  // namespace tcmalloc
