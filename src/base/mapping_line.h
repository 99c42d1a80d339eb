// SPDX-License-Identifier: BSD-3-Clause
// MappingLine: a line of /proc/PID/maps, parsed. Plain data; os/memory_map.h parses.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcmalloc {

// The string views refer to the parsed line.
struct MappingLine {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  // True if writes reach no file and no other process.
  bool is_private = false;
  // The offset of the mapping in its file.
  uint64_t file_offset = 0;
  // Device and inode, equal for all mappings of one file; empty if the mapping has no file.
  std::string_view file;
  // The path of the file, without the kernel's note that it has been deleted; or another name, for
  // example "[heap]"; or empty.
  std::string_view name;
};

}  // namespace tcmalloc
