// SPDX-License-Identifier: BSD-3-Clause
// GuardError: a misuse of a guarded object by the program: the kind of misuse, the object, and the
// call site. It is in the pool, where a reader of a core dump finds it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/allocation_kind.h"
#include "instruments/guard/guard_slot.h"

namespace tcmalloc {

enum class GuardErrorKind : uint8_t {
  kNone,
  // Kinds of accesses that faulted.
  kUseAfterFree,
  kOverflow,
  kUnderflow,
  kNoObject,  // in the pool, where no object ever was nearby
  // Kinds of wrong frees.
  kDoubleFree,
  kInvalidFree,     // not the start of an object
  kMismatchedFree,  // for example, delete of an object of malloc
  kWrongSize,       // a sized free, with another size or alignment
  // A free found that the slack was written.
  kWrittenAfter,
  kWrittenBefore,
};

// The operation of the program.
enum class GuardAccess : uint8_t { kAccess, kRead, kWrite, kFree, kReallocate };

struct GuardError {
  GuardErrorKind kind = GuardErrorKind::kNone;
  GuardAccess access = GuardAccess::kAccess;
  // For kFree: the function.
  AllocationKind freed_as = AllocationKind::kUnknown;
  // The index of the object's slot; GuardSlot::kNone if there is no object.
  uint32_t slot = GuardSlot::kNone;
  // The address that was accessed, freed, or for kWrittenAfter and kWrittenBefore written.
  uintptr_t address = 0;
  // For kWrongSize: the arguments of the free.
  size_t size = 0;
  size_t alignment = 1;
  GuardTrace trace;
};

}  // namespace tcmalloc
