// SPDX-License-Identifier: BSD-3-Clause
// How much memory the process, its control group and the system use and have, as os/memory_use.h
// counts it: the OS reclaims page cache, which a group's use includes, by itself.
//
// Source: the kernel's documentation, proc.rst, cgroup-v1/memory.rst and cgroup-v2.rst. Thread
// safety: any. Never allocates, no cancellation point, keeps errno. No value means that the figure
// cannot be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "os/cgroup.h"

namespace tcmalloc {

// Resident anonymous bytes of the process (ProcessMemory). `root` is a prefix of the file's path.
std::optional<uint64_t> ReadProcessAnonymousBytes(std::string_view root = "");

// Anonymous bytes of a group and its descendants. `directory` is a result of FindCgroupDirectories;
// no value for an empty one. Cost: the kernel sums its counters of all CPUs, tens to some hundreds
// of microseconds.
std::optional<uint64_t> ReadCgroupAnonymousBytes(CgroupVersion version, std::string_view directory);

struct SystemMemory {
  uint64_t total_bytes = 0;
  // The kernel's estimate of what programs may allocate before swapping begins.
  uint64_t available_bytes = 0;
};

// From /proc/meminfo; in a container, too, these are the machine's. `root` as above. Cost: tens of
// microseconds.
std::optional<SystemMemory> ReadSystemMemory(std::string_view root = "");

// A line of memory.stat, memory.events or /proc/meminfo: a name (with a colon in the last) and a
// number, mostly of KiB in the last, as the line says.
struct MemoryFigure {
  std::string_view name;  // refers to the line, without the colon
  uint64_t value = 0;     // in bytes where the line has a unit
};
// False for a malformed line, and for more than 64 bits.
bool ParseMemoryFigure(std::string_view line, MemoryFigure* figure);

}  // namespace tcmalloc
