// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory_map.h"

#include <errno.h>

#include <cstddef>
#include <cstring>

#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

// Reads hexadecimal digits; false when there is none.
bool ParseHex(const char** at, uintptr_t* value) {
  const char* const begin = *at;
  *value = 0;
  for (;; ++*at) {
    const char c = **at;
    if (c >= '0' && c <= '9') {
      *value = *value * 16 + static_cast<uintptr_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      *value = *value * 16 + static_cast<uintptr_t>(c - 'a' + 10);
    } else {
      return *at != begin;
    }
  }
}

// Behind the spaces at `at` and the characters that follow them.
const char* SkipField(const char* at) {
  while (*at == ' ') ++at;
  while (*at != '\0' && *at != ' ') ++at;
  return at;
}

}  // namespace

bool ParseMemoryMapping(const char* line, MemoryMapping* mapping) {
  if (!ParseHex(&line, &mapping->start) || *line++ != '-') return false;
  if (!ParseHex(&line, &mapping->end) || *line != ' ') return false;
  // Permissions, offset, device and inode come before the name. A file's name starts with a slash.
  for (int field = 0; field < 4; ++field) line = SkipField(line);
  while (*line == ' ') ++line;
  mapping->is_main_stack = strcmp(line, "[stack]") == 0;
  return true;
}

bool FindMemoryMapping(uintptr_t address, MemoryMapping* mapping) {
  const int fd = OpenForReading("/proc/self/maps");
  if (fd < 0) return false;
  // The longest part of a line that matters: addresses in front; of a longer line the rest is
  // skipped.
  char line[160];
  size_t length = 0;
  char chunk[512];
  bool found = false;
  for (;;) {
    const ssize_t n = ReadFrom(fd, chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    for (ssize_t i = 0; i < n && !found; ++i) {
      if (chunk[i] != '\n') {
        if (length + 1 < sizeof(line)) line[length++] = chunk[i];
        continue;
      }
      line[length] = '\0';
      length = 0;
      found =
          ParseMemoryMapping(line, mapping) && mapping->start <= address && address < mapping->end;
    }
    if (found) break;
  }
  Close(fd);
  return found;
}

}  // namespace tcmalloc
