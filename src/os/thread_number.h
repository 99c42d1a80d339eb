// SPDX-License-Identifier: BSD-3-Clause
// A small number that identifies the calling thread in its process: above 0 and below 2^26. A
// number may be reused after 2^26 threads. A forked child keeps it. Cost: a load after the first
// call.
#pragma once

#include <cstdint>

#include "base/compiler.h"

namespace tcmalloc {

inline constexpr int kThreadNumberBits = 26;

extern constinit thread_local uint32_t this_thread_number
    __attribute__((tls_model("initial-exec")));
// Assigns the thread its number.
TC_SLOW_PATH uint32_t NumberThisThread();

// Around fork, by the forking thread. NoteFork comes before the fork; in a nested one it does
// nothing. Until ForgetFork, IsOfForkedParent is true in the child for the numbers that were given
// to threads of the parent, and false in the parent.
void NoteFork();
void ForgetFork();
bool IsOfForkedParent(uint32_t number);

inline uint32_t ThisThreadNumber() {
  const uint32_t number = this_thread_number;
  return __builtin_expect(number != 0, true) ? number : NumberThisThread();
}

}  // namespace tcmalloc
