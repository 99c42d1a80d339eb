// SPDX-License-Identifier: BSD-3-Clause
// What the entry points do when there is no memory: errno for C, handlers and exceptions for C++.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>

#include "base/compiler.h"

namespace tcmalloc {

// The functions of C, too, call the new_handler when there is no memory. Written by the program;
// nothing hangs on its order.
extern constinit std::atomic<bool> c_calls_new_handler;

// Sets errno to ENOMEM; returns null.
TC_SLOW_PATH void* FailWithErrno();

// A further try to allocate `size` bytes at `alignment` (0: as malloc).
void* TryAllocate(size_t size, size_t alignment);

// The loop that the C++ standard prescribes: calls the installed new_handler and tries again until
// there is memory; throws std::bad_alloc when no handler is installed. What a handler throws passes
// through.
TC_SLOW_PATH void* NewAfterFailure(size_t size, size_t alignment);

// operator new when the fast path has no object: allocates, or does the above.
// Throws at once where the alignment is no power of two.
TC_SLOW_PATH void* NewSlow(size_t size);
void* NewAligned(size_t size, size_t alignment);

// The same for the nothrow forms: null where the other throws, whatever is thrown.
TC_SLOW_PATH void* NewNothrowAfterFailure(size_t size, size_t alignment);
TC_SLOW_PATH void* NewNothrowSlow(size_t size);
void* NewAlignedNothrow(size_t size, size_t alignment);

// Calls an operator new of the program's; null when it throws.
TC_SLOW_PATH void* CallWithoutThrowing(void* (*operator_new)(size_t), size_t size);
TC_SLOW_PATH void* CallWithoutThrowing(void* (*operator_new)(size_t, std::align_val_t), size_t size,
                                       std::align_val_t alignment);

}  // namespace tcmalloc
