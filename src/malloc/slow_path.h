// SPDX-License-Identifier: BSD-3-Clause
// The slow paths of the entry points: first use, empty and full bins, large objects, foreign and
// invalid pointers. They never set errno or throw: out of memory is a null pointer (oom_policy.h).
// No lock may be held. And the functions that run when the library is loaded and when the process
// exits (library.cc).
#pragma once

#include <cstddef>

#include "base/allocation_kind.h"
#include "base/compiler.h"
#include "base/size_classes.h"

namespace tcmalloc {

// The largest request; larger ones fail, since pointer differences must not overflow.
inline constexpr size_t kMaxRequest = static_cast<size_t>(PTRDIFF_MAX);

// Allocates an object of at least `size` bytes; null without memory. The kind of AllocateSlow is
// kMalloc.
TC_SLOW_PATH void* AllocateSlow(size_t size);
TC_SLOW_PATH void* AllocateSlowAs(AllocationKind kind, size_t size);

// As AllocateSlowAs, but the object is at a multiple of `alignment`, a power of two.
void* AllocateAligned(size_t size, size_t alignment, AllocationKind kind = AllocationKind::kMalloc);

// The bytes of an object that AllocateAligned would return; 0 if it would always fail.
size_t AllocationSize(size_t size, size_t alignment);

// Allocates `size` bytes that are zero. It does not clear memory that is fresh from the OS, which
// is zero already.
void* AllocateZeroed(size_t size);

// Frees `p`. kKind is kMalloc for free, kNew for operator delete, kNewArray for operator delete[].
template <AllocationKind kKind>
TC_SLOW_PATH void FreeSlow(void* p);

// Free `p` with the size, and the alignment, that the program says it requested. For a null pointer
// they accept any values. They abort if the object has another size class or, if it is large,
// another number of pages; and if `alignment` is not a power of two, or the address is not a
// multiple of it.
template <AllocationKind kKind>
TC_SLOW_PATH void FreeSizedSlow(void* p, size_t size);
void FreeSizedAligned(void* p, size_t size, size_t alignment,
                      AllocationKind kind = AllocationKind::kMalloc);

// Like realloc, for p != null and size > 0. Null without memory; then `p` is unchanged.
void* Reallocate(void* p, size_t size);

// Bytes of the object at `p` that the program may use; 0 for null, and for an address that is
// neither an object of this heap nor of the C library. Aborts if `p` is an object's address except
// for its upper bits, which no address has.
size_t UsableSize(void* p);

// Foreign pointers: addresses that are not the start of an object of this heap. Objects of the C
// library's allocator are forwarded to it; for others the process aborts with one line that says
// what the address is (central/misuse.h). Called by the slow paths of free, realloc and
// malloc_usable_size. Cost: well under a microsecond, or a read of
// /proc/self/maps for an address near a stack; plus the cost of the C library's function.

struct Heap;

// Passes `p` to the C library's free, or aborts. Requires: `p` is not the start of an object in
// use.
void FreeForeign(Heap& heap, void* p);

// As FreeForeign, for realloc. Returns the C library's result.
void* ReallocateForeign(Heap& heap, void* p, size_t size);

// Returns the C library's result, or 0 if `p` cannot be one of its objects.
size_t ForeignUsableSize(Heap& heap, void* p);

// A constructor and a destructor in entry_c.cc call these two.

// Finds the C library's allocator, registers the fork handlers, and starts the tools that the
// settings request. Allocation works before this has run.
void OnLibraryLoad();

// Writes the reports that the settings request at the end of the process. If a signal is ending the
// process at this moment, waits until its reports are written.
void OnProcessExit();

}  // namespace tcmalloc
