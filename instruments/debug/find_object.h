// SPDX-License-Identifier: BSD-3-Clause
// Finds the header of an object by the program's pointer.
#pragma once

#include <cstddef>

#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {

// An object of the underlying heap, in use or not.
struct RawMemory {
  char* start = nullptr;  // null if there is none
  size_t bytes = 0;
};

// Returns the object of the heap that contains `p`; none if `p` is in no span in use.
RawMemory RawMemoryAt(const void* p);

// Returns the live object at `p`. Null if `p` is in no span in use: then the ordinary functions
// handle it. If no live object begins at `p`, reports that and ends the process; with `call` null
// it does so only for a freed object, and otherwise returns null.
DebugObject* FindObject(const void* p, const char* call);

}  // namespace tcmalloc
