// SPDX-License-Identifier: BSD-3-Clause
// How much memory is in use and how much there is: of the process, of its control group, of the
// system. Anonymous memory, which is what a program allocates: the page cache, which a group's use
// contains as well, goes by itself when memory is short.
//
// Facts: the kernel's documentation, proc.rst, cgroup-v1/memory.rst and cgroup-v2.rst. Thread
// safety: any. Never allocates, no cancellation point, errno is kept. What cannot be read is
// unknown: no value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "os/cgroup.h"

namespace tcmalloc {

// Bytes of anonymous memory that the process has resident: what /proc/self/statm calls resident
// less what it calls shared. Wrong by some pages per processor on systems with many. `root` is put
// in front of the file's name. Cost: three system calls, a few microseconds.
std::optional<uint64_t> ReadProcessAnonymousBytes(std::string_view root = "");

struct ProcessMemory {
  uint64_t resident_bytes = 0;
  uint64_t anonymous_bytes = 0;  // as above
};
// Of this process, from the same file. Cost: the same, less stack.
std::optional<ProcessMemory> ReadProcessMemory();

// Bytes of anonymous memory of a group and those below it. `directory` as FindCgroupDirectories
// found it; no value for an empty one. Cost: the kernel adds up its counters of all processors,
// tens to some hundreds of microseconds.
std::optional<uint64_t> ReadCgroupAnonymousBytes(CgroupVersion version, std::string_view directory);

struct SystemMemory {
  uint64_t total_bytes = 0;
  // What programs may take before the system begins to swap: an estimate of the kernel's.
  uint64_t available_bytes = 0;
};

// From /proc/meminfo, the machine's also in a container. `root` as above. Cost: tens of
// microseconds.
std::optional<SystemMemory> ReadSystemMemory(std::string_view root = "");

// The parts, for tests.

// A line of memory.stat, memory.events or /proc/meminfo: a name, the last with a colon, and a
// number, there mostly of KiB, which the line says.
struct MemoryFigure {
  std::string_view name;  // a part of the line, without the colon
  uint64_t value = 0;     // turned into bytes where the line names a unit
};
// False for what is malformed, and for more than 64 bits.
bool ParseMemoryFigure(std::string_view line, MemoryFigure* figure);

// The contents of /proc/self/statm, where pages have `page_bytes`. Requires: page_bytes <= 2^20.
bool ParseProcessMemory(std::string_view statm, uint64_t page_bytes, ProcessMemory* memory);
bool ParseAnonymousBytes(std::string_view statm, uint64_t page_bytes, uint64_t* bytes);

}  // namespace tcmalloc
