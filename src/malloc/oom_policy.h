// SPDX-License-Identifier: BSD-3-Clause
// The functions that the entry points call if there is no memory: they set errno for C, and use the
// new_handler and exceptions for C++. Below the entry points, out of memory is a null pointer. No
// lock may be held: handlers are code of the program, which may allocate.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>

#include "base/allocation_kind.h"
#include "base/compiler.h"

namespace tcmalloc {

// True if the C functions also call the new_handler (tc_set_new_mode). The program writes it.
// Relaxed, since no other data depends on it.
extern constinit std::atomic<bool> c_calls_new_handler;

// Sets errno to ENOMEM and returns null.
TC_SLOW_PATH void* FailWithErrno();

// Tries again to allocate `size` bytes at a multiple of `alignment` (0: as malloc aligns). The kind
// of the object is kUnknown: it may be freed as any kind.
void* TryAllocate(size_t size, size_t alignment);

// The loop of the C++ standard: calls the new_handler and tries again, until there is memory.
// Throws std::bad_alloc if no handler is installed. Exceptions of a handler pass through.
TC_SLOW_PATH void* NewAfterFailure(size_t size, size_t alignment);

// operator new if the fast path has no object: allocates, else calls NewAfterFailure. NewAligned
// throws at once if the alignment is not a power of two.
template <AllocationKind kKind>
TC_SLOW_PATH void* NewSlow(size_t size);
void* NewAligned(size_t size, size_t alignment, AllocationKind kind = AllocationKind::kNew);

// The nothrow forms: they return null where the others throw, and catch all exceptions.
TC_SLOW_PATH void* NewNothrowAfterFailure(size_t size, size_t alignment);
template <AllocationKind kKind>
TC_SLOW_PATH void* NewNothrowSlow(size_t size);
void* NewAlignedNothrow(size_t size, size_t alignment, AllocationKind kind = AllocationKind::kNew);

// Calls the program's operator new; null if it throws.
TC_SLOW_PATH void* CallWithoutThrowing(void* (*operator_new)(size_t), size_t size);
TC_SLOW_PATH void* CallWithoutThrowing(void* (*operator_new)(size_t, std::align_val_t), size_t size,
                                       std::align_val_t alignment);

}  // namespace tcmalloc
