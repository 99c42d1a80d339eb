// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/object_index.h"

namespace tcmalloc {

ProgramObject ProgramObjectOf(const LiveObject& object, const MemoryReader*) {
  return {.start = object.start, .bytes = object.bytes};
}

const bool kKeepsFreedObjects = false;

}  // namespace tcmalloc
