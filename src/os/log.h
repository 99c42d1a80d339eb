// SPDX-License-Identifier: BSD-3-Clause
// Text to stderr with nothing between it and the system call: no buffer, no allocation, usable
// before the C library is ready, after exit handlers ran, and while the heap is broken. `errno` is
// kept.
#pragma once

#include <string_view>

namespace tcmalloc {

// Writes all of `text` to stderr; what cannot be written is dropped.
void WriteToStderr(std::string_view text) noexcept;

// Writes `text`, which ends in a newline, to stderr and aborts.
[[noreturn]] void AbortWith(std::string_view text) noexcept;

}  // namespace tcmalloc
