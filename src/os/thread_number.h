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

// The thread with that number began in this process: it is not one of those that a forked child
// lacks. Not the thread that forked either. Requires: the number was given to a thread.
bool NumberedInThisProcess(uint32_t number);

inline uint32_t ThisThreadNumber() {
  const uint32_t number = this_thread_number;
  return __builtin_expect(number != 0, true) ? number : NumberThisThread();
}

}  // namespace tcmalloc
