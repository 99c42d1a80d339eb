// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/program_object.h"

namespace tcmalloc {

ProgramObject ProgramObjectOf(const LiveObject& object, const MemoryReader*) {
  return {.start = object.start, .bytes = object.bytes};
}

const bool kKeepsFreedObjects = false;

}  // namespace tcmalloc
