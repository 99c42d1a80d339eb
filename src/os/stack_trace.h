// SPDX-License-Identifier: BSD-3-Clause
// The calling thread's stack as return addresses.
//
// Called from anywhere: before main, in signal handlers, in forked children, while another thread
// loads or unloads a library. It allocates nothing and takes no lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

namespace tcmalloc {

inline constexpr size_t kMaxStackDepth = 128;

// Writes up to `max` return addresses to `frames`, the caller's first, without the `skip` first
// ones of those, and returns how many.
TC_SLOW_PATH size_t GetStackTrace(uintptr_t* frames, size_t max, size_t skip);

}  // namespace tcmalloc
