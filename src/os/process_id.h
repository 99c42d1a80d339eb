// SPDX-License-Identifier: BSD-3-Clause
// The ids of the calling process and of the calling thread, as the OS, debuggers and ps show them.
// Signal handlers may call these functions.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tcmalloc {

inline uint64_t ProcessId() { return static_cast<uint64_t>(getpid()); }

// Cost: a system call.
inline uint32_t ThreadId() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

}  // namespace tcmalloc
