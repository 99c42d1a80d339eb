// SPDX-License-Identifier: BSD-3-Clause
// The process's own control groups: their directories, and their memory events as descriptors to
// poll.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tcmalloc {

// Memory events of control groups (cgroups), as descriptors to poll. Version 2 counts in
// memory.events how often the group went above its limits. Version 1 signals an eventfd when the
// group's use crosses a threshold, or when reclaiming its memory is costly.
//
// Source: the kernel's documentation, cgroup-v2.rst and cgroup-v1/memory.rst, and the kernel's
// behaviour under poll. `directory` is a result of FindCgroupDirectories. The caller owns the
// descriptors, which are non-blocking and close-on-exec. Functions that open return a descriptor or
// a negative error number: ENOENT if the OS has no such file (also for an empty `directory`),
// EACCES if this user may not open it. Thread safety: any, but one thread at a time reads a
// descriptor. Never allocates, is no cancellation point, keeps errno. Cost: two to seven system
// calls.

// Version 2. How often, since the group was created, it and its descendants had to reclaim memory
// because they were above memory.high (`high`), or about to exceed memory.max (`max`).
struct MemoryEvents {
  uint64_t high = 0;
  uint64_t max = 0;

  bool operator==(const MemoryEvents&) const = default;
};

// Opens memory.events. Poll reports POLLPRI and POLLERR if a counter has changed since the last
// read, by this function or by ReadMemoryEvents, and keeps reporting until the next read.
int OpenMemoryEvents(std::string_view directory);

// No value when it cannot be read because the group was removed.
std::optional<MemoryEvents> ReadMemoryEvents(int fd);

// Version 1. An eventfd that becomes readable (POLLIN) whenever the group's memory use, page cache
// included, crosses `threshold_bytes` in either direction. Read it with DiscardInput. It stays
// registered until every process that has the descriptor has closed it.
int OpenMemoryThreshold(std::string_view directory, uint64_t threshold_bytes);

// Version 1. Like OpenMemoryThreshold, for the reclaim of memory of the group, or of descendants
// without listeners. Memory is being reclaimed (low), the reclaim is costly (medium), or hardly any
// memory can be reclaimed (critical). Each level includes the more severe ones. The file is
// deprecated: newer kernels log a line when it is first used.
enum class MemoryPressureLevel : uint8_t { kLow, kMedium, kCritical };
int OpenMemoryPressureLevel(std::string_view directory, MemoryPressureLevel level);

// For tests: parses memory.events. False when neither count is present.
bool ParseMemoryEvents(std::string_view text, MemoryEvents* events);

// The directories of the process's own groups. The names are zero-terminated and begin with `root`.
// A name is empty if there is no such group, it is in no mount that the process sees, or its path
// is too long to open a file. On systems with both versions, only one version has the memory files,
// except memory.pressure, which every version 2 group may have.
struct CgroupDirectories {
  static constexpr size_t kMaxLength = 4096;
  char v1[kMaxLength];
  char v2[kMaxLength];
};

// False when they cannot be read at the moment (see ReadCgroupMemoryLimit); then all names are
// empty. If there are several mounts, uses the first in which the directory exists. Requires: no
// lock is held.
bool FindCgroupDirectories(CgroupDirectories* directories, std::string_view root = "");

}  // namespace tcmalloc
