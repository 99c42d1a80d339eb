// SPDX-License-Identifier: BSD-3-Clause
// The program's view of an object of the heap. The debug libraries put a header before the
// program's object, and keep freed objects in use for a while (program_object_debug.cc). In the
// other libraries the heap's object is the program's object (program_object.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/leaks/object_index.h"
#include "instruments/world_stop/memory_reader.h"

namespace tcmalloc {

struct ProgramObject {
  uintptr_t start = 0;
  size_t bytes = 0;
  // The stack of the allocation, if the library keeps it.
  const uintptr_t* frames = nullptr;
  size_t depth = 0;
  enum class State : uint8_t {
    kInUse,
    kNotYet,  // being allocated: the program has no pointer to it
    kFreed,
  } state = State::kInUse;
};

// Reads the object's memory through `reader`, or directly if that is null.
ProgramObject ProgramObjectOf(const LiveObject& object, const MemoryReader* reader);

// True if some objects may be kFreed: the caller must omit these.
extern const bool kKeepsFreedObjects;

}  // namespace tcmalloc
