// SPDX-License-Identifier: BSD-3-Clause
// Protects pages, and reads protected ones: for the page fences of the debug libraries and for
// guarded samples. Keeps errno. Thread safety: any. Cost: a system call or two; three to copy.
#pragma once

#include <cstddef>

namespace tcmalloc {

enum class PageAccess { kNone, kRead, kReadWrite };

// Requires: whole hardware pages. False when the OS refuses, for example because there are too many
// mappings.
[[nodiscard]] bool SetAccess(void* start, size_t bytes, PageAccess access);

// Makes the pages inaccessible and releases their memory, unless it is locked. False when the OS
// refuses to protect the pages; then they are accessible and keep their contents.
[[nodiscard]] bool MakeInaccessible(void* start, size_t bytes);

// Copies memory that may be protected. False if the OS does not allow that.
[[nodiscard]] bool CopyProtected(void* to, const void* from, size_t bytes);

}  // namespace tcmalloc
