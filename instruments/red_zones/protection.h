// SPDX-License-Identifier: BSD-3-Clause
// Protects pages of the heap, and reads protected ones. Keeps errno. Thread safety: any.
#pragma once

#include <cstddef>

namespace tcmalloc {

enum class PageAccess { kNone, kRead, kReadWrite };

// False when the OS refuses, for example because there are too many mappings.
[[nodiscard]] bool SetAccess(void* start, size_t bytes, PageAccess access);

// Copies memory that may be protected. False if the OS does not allow that. Cost: three system
// calls.
[[nodiscard]] bool CopyProtected(void* to, const void* from, size_t bytes);

}  // namespace tcmalloc
