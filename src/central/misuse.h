// SPDX-License-Identifier: BSD-3-Clause
// The report of misuse: one line with the pointer that the program passed, what it is and what was
// expected, then abort. No lock may be held: a handler for SIGABRT may allocate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counters.h"

namespace tcmalloc {

enum class Misuse : uint8_t {
  kNone,
  kDoubleFree,        // a free object of ours; `size` is its size
  kNotAnObjectStart,  // inside an object of ours; `size` is the object's size
  kNotInUse,          // in our memory, but not in any object that is in use
  kWrongSize,         // an object of `size` bytes, freed with `expected` bytes
  kMissingAlignment,  // the same, and right for some alignment, but the free passed none
  kWrongAlignment,    // freed with an alignment that the object cannot have been allocated with
  kUpperBits,         // in our memory but for upper bits, which addresses do not have
  kStack,             // in a thread's stack
  kModuleImage,       // in the image of the program or a shared library
  kUnknown,           // not ours, and there is no other allocator to which it could belong
};

// True once realloc has left an object longer than the program asked for, because there was no
// memory for a shorter one: a sized free may pass the smaller size. The thread that frees the
// object knows of that call, so it sees the store.
inline constinit Relaxed<bool> sizes_may_be_smaller{false};

// `size` and `expected`: see the enumerators; else 0. `alignment` is what the free passed, for
// kWrongSize and kWrongAlignment; 1 when it passed none.
[[noreturn]] void ReportMisuse(Misuse misuse, const void* p, size_t size = 0, size_t expected = 0,
                               size_t alignment = 1) noexcept;

}  // namespace tcmalloc
