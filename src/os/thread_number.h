// SPDX-License-Identifier: BSD-3-Clause
// A small number for the calling thread that no other thread of the process has: not 0, and below
// 2^26. A number may come again after 2^26 threads. It stays the same in a forked child. Cost: a
// load after the first call.
#pragma once

#include <cstdint>

#include "base/compiler.h"

namespace tcmalloc {

inline constexpr int kThreadNumberBits = 26;

extern constinit thread_local uint32_t this_thread_number
    __attribute__((tls_model("initial-exec")));
// Gives the thread its number.
TC_SLOW_PATH uint32_t NumberThisThread();

inline uint32_t ThisThreadNumber() {
  const uint32_t number = this_thread_number;
  return __builtin_expect(number != 0, true) ? number : NumberThisThread();
}

}  // namespace tcmalloc
