// SPDX-License-Identifier: BSD-3-Clause
// The id of the calling process. Signal handlers may call it.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace tcmalloc {

inline uint64_t ProcessId() { return static_cast<uint64_t>(getpid()); }

}  // namespace tcmalloc
