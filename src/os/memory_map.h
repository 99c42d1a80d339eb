// SPDX-License-Identifier: BSD-3-Clause
// One line of /proc/self/maps. Reads the file through a small buffer on the stack; never allocates.
#pragma once

#include <cstdint>

namespace tcmalloc {

struct MemoryMapping {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool is_main_stack = false;
};

// The mapping that contains `address`; false when there is none or the file cannot be read. Cost: a
// read of the file up to that line, tens of microseconds. Changes errno.
bool FindMemoryMapping(uintptr_t address, MemoryMapping* mapping);

// Reads one line of the file's format (without the newline) into `mapping`; false when it is
// malformed.
bool ParseMemoryMapping(const char* line, MemoryMapping* mapping);

}  // namespace tcmalloc
