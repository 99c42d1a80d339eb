// SPDX-License-Identifier: BSD-3-Clause
// Writes text to stderr by a plain system call, without a buffer or an allocation. Works before the
// C library is ready, after exit handlers ran, and while the heap is corrupt. Keeps errno.
#pragma once

#include <cstddef>
#include <string_view>

namespace tcmalloc {

// Writes all of `text` to stderr. Drops the part that cannot be written.
void WriteToStderr(std::string_view text) noexcept;

// Writes `text`, which ends in a newline, to stderr and aborts. Also keeps it as the abort line.
[[noreturn]] void AbortWith(std::string_view text) noexcept;
// Aborts after a report that was written already: keeps `text` as the abort line.
[[noreturn]] void AbortAfter(std::string_view text) noexcept;

// The line with which the library aborted last, for a reader of the core dump: text up to a zero,
// empty until then. A longer line is cut. A program may survive the abort by a handler that jumps
// out of it, and abort again. The aborting thread writes it; if two abort at once, one of them
// does.
inline constexpr size_t kAbortLineBytes = 256;
extern char abort_line[kAbortLineBytes];

}  // namespace tcmalloc
