// SPDX-License-Identifier: BSD-3-Clause
// Lines of /proc/self/maps. Reads the file through a small buffer on the stack; never allocates.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/mapping_line.h"

namespace tcmalloc {

struct MemoryMapping {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool is_main_stack = false;
};

// Finds the mapping that contains `address`; false when there is none or the file cannot be read.
// Cost: reads the file up to that line, tens of microseconds. Changes errno.
bool FindMemoryMapping(uintptr_t address, MemoryMapping* mapping);

// Parses one line (without the newline) into `mapping`; false when it is malformed. The line may be
// cut off within the name.
bool ParseMappingLine(std::string_view line, MappingLine* mapping);
bool ParseMemoryMapping(std::string_view line, MemoryMapping* mapping);

}  // namespace tcmalloc
