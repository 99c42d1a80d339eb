// SPDX-License-Identifier: BSD-3-Clause
// Any text as a line of memory.stat or /proc/meminfo, as /proc/self/statm and as memory.events.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "instruments/pressure/event_sources.h"
#include "instruments/pressure/figures.h"
#include "os/memory_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tcmalloc;
  // A vector, so that AddressSanitizer finds reads past the end.
  const std::vector<char> bytes(data, data + size);
  const std::string_view text(bytes.data(), bytes.size());
  MemoryFigure figure;
  if (ParseMemoryFigure(text, &figure)) {
    TC_CHECK(!figure.name.empty() && text.starts_with(figure.name));
    TC_CHECK(!text.ends_with('B') || figure.value % 1024 == 0);
  }
  ProcessMemory memory;
  if (ParseProcessMemory(text, 1 << 20, &memory)) {
    TC_CHECK(memory.anonymous_bytes % (1 << 20) == 0);
  }
  MemoryEvents events;
  if (!ParseMemoryEvents(text, &events)) TC_CHECK(events == MemoryEvents());
  return 0;
}
