// SPDX-License-Identifier: BSD-3-Clause
// How much memory the control groups (cgroups) that the process is in let it have, and where their
// files are: versions 1 and 2, also in containers, where the process sees a part of the hierarchy.
//
// Reads /proc/self/cgroup and /proc/self/mountinfo and from there the limits of the process's group
// and of all groups above it that are visible. Never allocates (its buffers are a mapping that it
// makes and removes), no cancellation point, `errno` is kept. Thread safety: any; no lock may be
// held. Cost: some 20 system calls, 100 us. The answer may change at any time: see Tuning::Limits.
//
// What cannot be read is no limit: a program must run where /proc or the groups are not to be seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text_writer.h"

namespace tcmalloc {

inline constexpr uint64_t kNoCgroupLimit = UINT64_MAX;

// The smallest limit in bytes that holds for the process, kNoCgroupLimit when there is none; no
// value when it cannot be told at the moment (no memory for buffers, no file descriptors left), or
// /proc is not there. `root` is put in front of every path that is opened: tests have a system of
// their own.
std::optional<uint64_t> ReadCgroupMemoryLimit(std::string_view root = "");

enum class CgroupVersion : uint8_t { kV1, kV2 };

// Where the files of the process's own groups are. Names end with a zero and have `root` in front;
// an empty one: there is no such group, it is not in a mount that the process sees, or its name is
// too long to open a file by. On systems with both versions only one of them has the files that
// tell of memory, but for memory.pressure, which every group of version 2 may have.
struct CgroupDirectories {
  static constexpr size_t kMaxLength = 4096;
  char v1[kMaxLength];
  char v2[kMaxLength];
};

// False when it cannot be told at the moment, as above; all names are empty then. Of several mounts
// the first one in which the directory exists. Only in the full library.
bool FindCgroupDirectories(CgroupDirectories* directories, std::string_view root = "");

// The parts, for tests.

// A line of /proc/self/cgroup: in which group of a hierarchy the process is.
struct CgroupMembership {
  CgroupVersion version = CgroupVersion::kV2;
  std::string_view path;  // below the root of the process's cgroup namespace
};
// False for what is malformed, and for hierarchies that do not limit memory. The result refers to
// `line`, which has no newline.
bool ParseCgroupMembership(std::string_view line, CgroupMembership* membership);

// A line of /proc/self/mountinfo: where such a hierarchy, or a part of it, is mounted. Spaces and
// the like are still written as the kernel writes them (\040).
struct CgroupMount {
  CgroupVersion version = CgroupVersion::kV2;
  std::string_view root;   // the group that is mounted, as CgroupMembership::path
  std::string_view point;  // where
};
bool ParseCgroupMount(std::string_view line, CgroupMount* mount);

// The directory of the group `path`; false when it is not in this mount. A process that sees itself
// in "/" of a mount of something else is in that mount's root, or below it by a way that cannot be
// known.
bool WriteCgroupDirectory(const CgroupMount& mount, std::string_view path, TextWriter* directory);

// The directory of the process's own group in one of the mounts.
struct CgroupDirectory {
  // Behind the name, for that of a file.
  static constexpr size_t kRoom = 64;

  CgroupVersion version = CgroupVersion::kV2;
  char* path;           // a buffer with its name and kRoom more
  size_t length;        // of the name, with `root` in front
  size_t mount_length;  // the part of it that is the mount
};

// Calls `see` for each of them, whether it exists or not. False when there is no memory for
// buffers, or a list cannot be read. Changes errno.
using SeeCgroupDirectory = void (*)(const CgroupDirectory& directory, void* context);
bool ForEachCgroupDirectory(std::string_view root, SeeCgroupDirectory see, void* context);

// The contents of memory.max, memory.high or memory.limit_in_bytes. False when they are none.
bool ParseCgroupLimit(std::string_view text, uint64_t* limit);

}  // namespace tcmalloc
