// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory_use.h"

#include <sys/auxv.h>

#include "base/text_fields.h"
#include "os/errno_keeper.h"
#include "os/input_file.h"

namespace tcmalloc {

bool ParseProcessMemory(std::string_view statm, uint64_t page_bytes, ProcessMemory* memory) {
  // The file has SIZE RESIDENT SHARED and other numbers, in pages.
  TakeField(&statm, ' ');
  uint64_t resident, shared;
  if (!TakeNumber(&statm, &resident) || !statm.starts_with(' ')) return false;
  statm.remove_prefix(1);
  if (!TakeNumber(&statm, &shared) || !statm.starts_with(' ')) return false;
  // No address space has that many pages.
  if (resident >> 44 != 0) return false;
  // The counters are not read at the same moment.
  memory->resident_bytes = resident * page_bytes;
  memory->anonymous_bytes = resident > shared ? (resident - shared) * page_bytes : 0;
  return true;
}

std::optional<ProcessMemory> ReadProcessMemory(const char* statm) {
  const ErrnoKeeper keeper;
  InputFile file(statm);
  if (!file.is_open()) return std::nullopt;
  char text[200];  // seven numbers of 64 bits
  ProcessMemory memory;
  if (!ParseProcessMemory({text, file.Read(text, sizeof(text))}, getauxval(AT_PAGESZ), &memory)) {
    return std::nullopt;
  }
  return memory;
}

}  // namespace tcmalloc
