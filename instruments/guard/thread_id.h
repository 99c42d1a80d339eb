// SPDX-License-Identifier: BSD-3-Clause
// The OS's number of the calling thread, as debuggers and ps show it. Cost: a system call. Signal
// handlers may call it.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tcmalloc {

inline uint32_t ThreadId() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

}  // namespace tcmalloc
