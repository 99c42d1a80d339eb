// SPDX-License-Identifier: BSD-3-Clause
// Makes whole hardware pages accessible, or inaccessible and unbacked. Keeps errno. Thread safety:
// any. Cost: one system call to make pages accessible, two to make them inaccessible.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// Makes the pages readable and writable. False when the OS refuses because there are too many
// mappings.
[[nodiscard]] bool MakeAccessible(uintptr_t start, size_t bytes);

// Makes the pages inaccessible and releases their memory, unless it is locked. False when the OS
// refuses to protect the pages; then they are accessible and keep their contents.
[[nodiscard]] bool MakeInaccessible(uintptr_t start, size_t bytes);

}  // namespace tcmalloc
