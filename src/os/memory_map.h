// SPDX-License-Identifier: BSD-3-Clause
// Lines of /proc/self/maps. Reads the file through a small buffer on the stack; never allocates.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcmalloc {

struct MemoryMapping {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool is_main_stack = false;
};

// The mapping that contains `address`; false when there is none or the file cannot be read. Cost:
// reads the file up to that line, tens of microseconds. Changes errno.
bool FindMemoryMapping(uintptr_t address, MemoryMapping* mapping);

// A parsed line. The texts are parts of it.
struct MappingLine {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  // Writes reach no file and no other process.
  bool is_private = false;
  // The offset of the mapping in its file.
  uint64_t file_offset = 0;
  // Device and inode, equal for all mappings of one file; empty for no file.
  std::string_view file;
  // A path, without the note that the file has been deleted, or another name, for example "[heap]",
  // or nothing.
  std::string_view name;
};

// Parses one line (without the newline) into `mapping`; false when it is malformed. The line may be
// cut off within the name.
bool ParseMappingLine(std::string_view line, MappingLine* mapping);
bool ParseMemoryMapping(std::string_view line, MemoryMapping* mapping);

}  // namespace tcmalloc
