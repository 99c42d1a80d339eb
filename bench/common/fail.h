// SPDX-License-Identifier: BSD-3-Clause

// Ends a benchmark program early, with one line on standard error and an exit status.
#pragma once

namespace tcmalloc::bench {

// Call this if a condition that must hold does not: the program's exit status becomes 1.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void Fail(const char* format, ...);

// Call this if the command line is invalid: the exit status becomes 2.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void FailUsage(const char* format, ...);

}  // namespace tcmalloc::bench
