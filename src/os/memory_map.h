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

// The mapping that contains `address`; false when there is none or the file cannot be read. Cost: a
// read of the file up to that line, tens of microseconds. Changes errno.
bool FindMemoryMapping(uintptr_t address, MemoryMapping* mapping);

// What a line says. The texts are parts of the line.
struct MappingLine {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  // What is written goes to no file and to no other process.
  bool is_private = false;
  // Where in the file the mapping begins.
  uint64_t file_offset = 0;
  // Device and inode: the same for all mappings of one file. Empty: of no file.
  std::string_view file;
  // A path, without the note that the file has been deleted since; something else, such as
  // "[heap]"; or nothing.
  std::string_view name;
};

// Reads one line of the file's format (without the newline) into `mapping`; false when it is
// malformed. It may have been cut off within the name.
bool ParseMappingLine(std::string_view line, MappingLine* mapping);
bool ParseMemoryMapping(std::string_view line, MemoryMapping* mapping);

}  // namespace tcmalloc
