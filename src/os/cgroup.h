// SPDX-License-Identifier: BSD-3-Clause
// The memory limits of the process's control groups (cgroups), and the directories of their files:
// versions 1 and 2, also in containers, where the process sees a part of the hierarchy.
//
// Reads /proc/self/cgroup and /proc/self/mountinfo, then the limits of the process's group and of
// all visible ancestors. Never allocates (its buffers are a mapping that it makes and removes), is
// no cancellation point, keeps errno. Thread safety: any; no lock may be held. Cost: some 20 system
// calls, 100 us. The limit may change at any time (kCgroupRereadMs).
//
// A limit that cannot be read counts as no limit, since programs must run where /proc or the groups
// are not visible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "base/tuned.h"

namespace tcmalloc {

inline constexpr uint64_t kNoCgroupLimit = UINT64_MAX;

// The time after which the library reads the limit of the control group again, since a container
// may be resized. Not measured.
inline constexpr int64_t kCgroupRereadMs = Tuned(5000, 100, 60'000);

// The smallest limit of the process in bytes, or kNoCgroupLimit. No value when it cannot be read at
// the moment (no memory for buffers, no file descriptors left), or /proc is missing. `root` is a
// prefix of every path that is opened, for tests. `process`: "self", or the number of another
// process, as far as this one sees its groups.
std::optional<uint64_t> ReadCgroupMemoryLimit(std::string_view root = "",
                                              std::string_view process = "self");

enum class CgroupVersion : uint8_t { kV1, kV2 };

// The functions below are for tests, for the response to pressure, and for the tcmalloc command.

// A line of /proc/self/cgroup: the process's group in one hierarchy.
struct CgroupMembership {
  CgroupVersion version = CgroupVersion::kV2;
  std::string_view path;  // below the root of the process's cgroup namespace
};
// False for malformed lines, and for hierarchies without memory limits. The result refers to
// `line`, which has no newline.
bool ParseCgroupMembership(std::string_view line, CgroupMembership* membership);

// A line of /proc/self/mountinfo: the mount point of such a hierarchy, or of a part of it. Spaces
// and similar characters are still in the kernel's notation (\040).
struct CgroupMount {
  CgroupVersion version = CgroupVersion::kV2;
  std::string_view root;   // the mounted group, as in CgroupMembership::path
  std::string_view point;  // the mount point
};
bool ParseCgroupMount(std::string_view line, CgroupMount* mount);

// Writes the directory of the group `path`; false when it is not in this mount. If a process's
// group is "/" in a mount with another root, the process is in that mount's root, or below it at an
// unknown path.
bool WriteCgroupDirectory(const CgroupMount& mount, std::string_view path, TextWriter* directory);

// The directory of the process's own group in one mount.
struct CgroupDirectory {
  // Room after the directory's path for the name of a file.
  static constexpr size_t kRoom = 64;

  CgroupVersion version = CgroupVersion::kV2;
  char* path;           // a buffer of the path and kRoom more bytes
  size_t length;        // of the path, including `root`
  size_t mount_length;  // of the part that is the mount point
};

// Calls `visit` for each such directory, whether or not it exists. False when there is no memory
// for buffers, or a list cannot be read. Changes errno.
using CgroupDirectoryVisitor = void (*)(const CgroupDirectory& directory, void* context);
bool ForEachCgroupDirectory(std::string_view root, CgroupDirectoryVisitor visit, void* context,
                            std::string_view process = "self");

// Parses memory.max, memory.high or memory.limit_in_bytes. False for other contents.
bool ParseCgroupLimit(std::string_view text, uint64_t* limit);

}  // namespace tcmalloc
