// SPDX-License-Identifier: BSD-3-Clause
// How much memory the process uses. Anonymous memory, which programs allocate, is counted
// separately from pages of files.
//
// Source: the kernel's documentation, proc.rst. Thread safety: any. Never allocates, is no
// cancellation point, keeps errno.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tcmalloc {

struct ProcessMemory {
  uint64_t resident_bytes = 0;
  // "resident" minus "shared". The number may be wrong by some pages per CPU on systems with many
  // CPUs.
  uint64_t anonymous_bytes = 0;
};

// Reads both numbers from the file `statm`; no value when it cannot be read. Cost: three system
// calls, a few microseconds.
std::optional<ProcessMemory> ReadProcessMemory(const char* statm = "/proc/self/statm");

// For tests: parses the contents of that file, with pages of `page_bytes`. Requires: page_bytes <=
// 2^20.
bool ParseProcessMemory(std::string_view statm, uint64_t page_bytes, ProcessMemory* memory);

}  // namespace tcmalloc
