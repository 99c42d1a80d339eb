// SPDX-License-Identifier: BSD-3-Clause
// The guarded samples in use of a target: objects in a separate pool, each on its own pages, which
// no span of the heap contains.
#pragma once

#include <cstdint>
#include <vector>

#include "heap/record.h"

namespace cli {

struct GuardedObject {
  Address record = 0;  // of the Span that represents it
  Address start = 0;
  uint64_t bytes = 0;     // requested
  Address pages_end = 0;  // of its accessible pages
  Address sample = 0;
  int64_t handed_out_ms = 0;
};

// Returns the guarded objects; none if there is no pool. Adds the pool's lock to `guards`. Throws
// BadImage.
std::vector<GuardedObject> ReadGuardedObjects(const Target& target, std::vector<Guard>* guards);

}  // namespace cli
