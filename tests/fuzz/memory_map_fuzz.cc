// SPDX-License-Identifier: BSD-3-Clause
// Any text as a line of /proc/self/maps.
#include <cstdint>
#include <vector>

#include "os/memory_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A vector, so that AddressSanitizer finds reads past the end.
  const std::vector<char> line(data, data + size);
  tcmalloc::MappingLine mapping;
  tcmalloc::ParseMappingLine({line.data(), line.size()}, &mapping);
  return 0;
}
