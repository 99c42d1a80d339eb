// SPDX-License-Identifier: BSD-3-Clause
// Any text as a line of /proc/self/maps.
#include <cstdint>
#include <string>

#include "os/memory_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string line(reinterpret_cast<const char*>(data), size);
  tcmalloc::MemoryMapping mapping;
  tcmalloc::ParseMemoryMapping(line.c_str(), &mapping);
  return 0;
}
