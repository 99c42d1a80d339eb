// SPDX-License-Identifier: BSD-3-Clause
// What /proc says of the process's memory: lines of /proc/self/maps, read through a small buffer on
// the stack, and how much memory the process uses. Never allocates.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/address_range.h"

namespace tcmalloc {

struct MemoryMapping {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool is_main_stack = false;
};

// Finds the mapping that contains `address`; false when there is none or the file cannot be read.
// Cost: reads the file up to that line, tens of microseconds. Changes errno.
bool FindMemoryMapping(uintptr_t address, MemoryMapping* mapping);

// Parses one line (without the newline) into `mapping`; false when it is malformed. The line may be
// cut off within the name.
bool ParseMappingLine(std::string_view line, MappingLine* mapping);
bool ParseMemoryMapping(std::string_view line, MemoryMapping* mapping);

// How much memory the process uses. Anonymous memory, which programs allocate, is counted
// separately from pages of files.
//
// Source: the kernel's documentation, proc.rst. Thread safety: any. Is no cancellation point, keeps
// errno.
struct ProcessMemory {
  uint64_t resident_bytes = 0;
  // "resident" minus "shared". The number may be wrong by some pages per CPU on systems with many
  // CPUs.
  uint64_t anonymous_bytes = 0;
};

// Reads both numbers from the file ProcessPath("statm"); no value when it cannot be read. Cost:
// three system calls, a few microseconds.
std::optional<ProcessMemory> ReadProcessMemory(const char* statm);

// For tests: parses the contents of that file, with pages of `page_bytes`. Requires: page_bytes <=
// 2^20.
bool ParseProcessMemory(std::string_view statm, uint64_t page_bytes, ProcessMemory* memory);

}  // namespace tcmalloc
