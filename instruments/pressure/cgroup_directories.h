// SPDX-License-Identifier: BSD-3-Clause
// The directories of the process's own control groups. Never allocates, is no cancellation point,
// keeps errno. Thread safety: any; no lock may be held.
#pragma once

#include <cstddef>
#include <string_view>

namespace tcmalloc {

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
// empty. If there are several mounts, uses the first in which the directory exists.
bool FindCgroupDirectories(CgroupDirectories* directories, std::string_view root = "");

}  // namespace tcmalloc
