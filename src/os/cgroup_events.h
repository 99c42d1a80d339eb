// SPDX-License-Identifier: BSD-3-Clause
// What control groups (cgroups) report about memory: descriptors to poll. Version 2 counts in
// memory.events how often the group went above its limits; version 1 tells an eventfd that the
// group's use has crossed a threshold, or that reclaiming its memory is laborious.
//
// Facts: the kernel's documentation, cgroup-v2.rst and cgroup-v1/memory.rst, and what its files do
// when polled. `directory` is a name as FindCgroupDirectories found it. Descriptors are the
// caller's, do not block and are closed by exec. Functions that open return a descriptor or an
// error number below zero: ENOENT where the system has no such file (also for an empty
// `directory`), EACCES where it is not for this user. Thread safety: any, but one thread at a time
// reads a descriptor. Never allocates, no cancellation point, errno is kept. Cost: two to seven
// system calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tcmalloc {

// Version 2. How often, since the group was made, it and those below it were made to reclaim memory
// because they were above memory.high, and about to go above memory.max.
struct MemoryEvents {
  uint64_t high = 0;
  uint64_t max = 0;

  bool operator==(const MemoryEvents&) const = default;
};

// Opens memory.events. Poll reports POLLPRI and POLLERR when any of its counters has changed since
// it was last read, here or by ReadMemoryEvents; after that until it is read anew.
int OpenMemoryEvents(std::string_view directory);

// No value when it cannot be read: the group is gone.
std::optional<MemoryEvents> ReadMemoryEvents(int fd);

// Version 1. An eventfd that becomes readable (POLLIN) whenever the group's use of memory, with its
// page cache, crosses `threshold_bytes`, upwards or downwards; read it by DiscardInput. It stays
// registered until every process that has it has closed it.
int OpenMemoryThreshold(std::string_view directory, uint64_t threshold_bytes);

// Version 1. The same when memory of the group, or of one below that nobody else listens to, is
// being reclaimed (low), with cost (medium), or hardly any can be (critical); each level contains
// those above it. The file is deprecated: newer kernels write a line to their log when it is first
// used.
enum class MemoryPressureLevel : uint8_t { kLow, kMedium, kCritical };
int OpenMemoryPressureLevel(std::string_view directory, MemoryPressureLevel level);

// The part, for tests: the contents of memory.events. False when there is neither figure.
bool ParseMemoryEvents(std::string_view text, MemoryEvents* events);

}  // namespace tcmalloc
