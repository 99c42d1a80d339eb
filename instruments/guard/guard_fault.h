// SPDX-License-Identifier: BSD-3-Clause
// Classifies a faulting access, and finds the object that the address belongs to, by the records of
// the pool. Async-signal-safe: it takes no lock, and reads records only.
#pragma once

#include <cstdint>

#include "instruments/guard/guard_error.h"
#include "instruments/guard/guard_pool.h"

namespace tcmalloc {

// Sets kind, slot and address of `error`. An address in the slot of a freed object belongs to that
// object. Any other address belongs to the nearest object, in use or freed, in the slots around it.
// An access that belongs to a freed object is a use after free; any other is an overflow or an
// underflow. Requires: the address is in the pool.
void ClassifyFault(const GuardPool& pool, uintptr_t address, GuardError* error);

}  // namespace tcmalloc
