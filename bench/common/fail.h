// SPDX-License-Identifier: BSD-3-Clause

// How the benchmark programs end early: one line on standard error and an exit status.
#pragma once

namespace tcmalloc::bench {

// Something that must hold did not: the program's exit status becomes 1.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void Fail(const char* format, ...);

// The command line makes no sense: the exit status becomes 2.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void FailUsage(const char* format, ...);

}  // namespace tcmalloc::bench
