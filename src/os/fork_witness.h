// SPDX-License-Identifier: BSD-3-Clause
// A word by which a process sees that it is a copy of another one, however it was made: the kernel
// clears its page in children (MADV_WIPEONFORK, Linux 4.14).
#pragma once

#include <atomic>
#include <cstdint>

namespace tcmalloc {

// Returns a word that is 1 in this process, and 0 in each process that gets a copy of its memory,
// until the function is called there. Null if the kernel has no such pages. Thread safety: any.
// Keeps errno; a signal handler may call it. Cost: the first call makes three system calls and
// permanently takes a page.
const std::atomic<uint32_t>* WatchForCopies();

}  // namespace tcmalloc
