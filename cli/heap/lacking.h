// SPDX-License-Identifier: BSD-3-Clause
// The parts of a heap that an image lacks: memory of objects that was left out of a core file. The
// records of the allocator are complete nevertheless.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heap/objects.h"

namespace cli {

struct Lacking {
  uint64_t bytes = 0;
  Address first = 0;  // the lowest address that is missing
};

// Finds the memory of spans with objects that is in no readable mapping, and was written.
Lacking LackingMemory(const HeapObjects& objects, const std::vector<Mapping>& mappings,
                      const std::function<bool(Address)>& is_unwritten);

}  // namespace cli
