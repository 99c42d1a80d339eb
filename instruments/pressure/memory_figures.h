// SPDX-License-Identifier: BSD-3-Clause
// Figures for the memory that the process, its control group and the system use and have. As in
// os/memory_map.h, only anonymous memory counts as used: the OS by itself reclaims the page cache,
// which a group's use includes.
//
// Source: the kernel's documentation, proc.rst, cgroup-v1/memory.rst and cgroup-v2.rst. Thread
// safety: any. Never allocates, is no cancellation point, keeps errno. A function returns no value
// if the figure cannot be read.
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

// Reads /proc/meminfo. In a container, too, the figures are those of the machine. `root` as above.
// Cost: tens of microseconds.
std::optional<SystemMemory> ReadSystemMemory(std::string_view root = "");

// A line of memory.stat, memory.events or /proc/meminfo: a name and a number. In /proc/meminfo a
// colon follows the name, and most numbers have the unit KiB.
struct MemoryFigure {
  std::string_view name;  // refers to the line, without the colon
  uint64_t value = 0;     // in bytes if the line has a unit
};
// False for a malformed line, and for a number of more than 64 bits.
bool ParseMemoryFigure(std::string_view line, MemoryFigure* figure);

}  // namespace tcmalloc
