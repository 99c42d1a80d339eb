// SPDX-License-Identifier: BSD-3-Clause
// Writes text to stderr by a plain system call: no buffer, no allocation. Usable before the C
// library is ready, after exit handlers ran, and while the heap is corrupt. Keeps errno.
#pragma once

#include <string_view>

namespace tcmalloc {

// Writes all of `text` to stderr. Drops the part that cannot be written.
void WriteToStderr(std::string_view text) noexcept;

// Writes `text`, which ends in a newline, to stderr and aborts.
[[noreturn]] void AbortWith(std::string_view text) noexcept;

}  // namespace tcmalloc
