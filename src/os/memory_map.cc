// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory_map.h"

#include <sys/auxv.h>

#include <cstddef>

#include "base/text.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

// Removes hexadecimal digits at the front of `text`; false when there are none.
bool TakeHex(std::string_view* text, uint64_t* value) {
  size_t length = 0;
  *value = 0;
  for (; length < text->size(); ++length) {
    const char c = (*text)[length];
    if (c >= '0' && c <= '9') {
      *value = *value * 16 + static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      *value = *value * 16 + static_cast<uint64_t>(c - 'a' + 10);
    } else {
      break;
    }
  }
  text->remove_prefix(length);
  return length > 0;
}

bool TakeChar(std::string_view* text, char c) {
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

void SkipSpaces(std::string_view* text) {
  while (TakeChar(text, ' ')) continue;
}

}  // namespace

bool ParseMappingLine(std::string_view line, MappingLine* mapping) {
  uint64_t start, end;
  if (!TakeHex(&line, &start) || !TakeChar(&line, '-')) return false;
  if (!TakeHex(&line, &end) || !TakeChar(&line, ' ')) return false;
  mapping->start = static_cast<uintptr_t>(start);
  mapping->end = static_cast<uintptr_t>(end);
  const std::string_view permissions = TakeField(&line, ' ');
  if (permissions.size() != 4) return false;
  mapping->readable = permissions[0] == 'r';
  mapping->writable = permissions[1] == 'w';
  mapping->executable = permissions[2] == 'x';
  mapping->is_private = permissions[3] == 'p';
  if (!TakeHex(&line, &mapping->file_offset) || !TakeChar(&line, ' ')) return false;
  const std::string_view device = TakeField(&line, ' ');
  const std::string_view inode = TakeField(&line, ' ');
  if (device.empty() || inode.empty()) return false;
  mapping->file = {};
  if (inode != "0") mapping->file = {device.data(), device.size() + 1 + inode.size()};
  SkipSpaces(&line);
  // The kernel adds the note only to paths.
  constexpr std::string_view kDeleted = " (deleted)";
  if (line.starts_with('/') && line.ends_with(kDeleted)) line.remove_suffix(kDeleted.size());
  mapping->name = line;
  return true;
}

bool ParseMemoryMapping(std::string_view line, MemoryMapping* mapping) {
  MappingLine parsed;
  if (!ParseMappingLine(line, &parsed)) return false;
  *mapping = {parsed.start, parsed.end, parsed.name == "[stack]"};
  return true;
}

bool FindMemoryMapping(uintptr_t address, MemoryMapping* mapping) {
  InputFile file(ProcessPath("maps").c_str());
  if (!file.is_open()) return false;
  // The buffer holds the fields before the name; nothing else is needed. The rest of a longer line
  // is skipped.
  char line[160];
  size_t length = 0;
  char chunk[512];
  while (const size_t n = file.Read(chunk, sizeof(chunk))) {
    for (size_t i = 0; i < n; ++i) {
      if (chunk[i] != '\n') {
        if (length < sizeof(line)) line[length++] = chunk[i];
        continue;
      }
      if (ParseMemoryMapping({line, length}, mapping) && mapping->start <= address &&
          address < mapping->end) {
        return true;
      }
      length = 0;
    }
  }
  return false;
}

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
