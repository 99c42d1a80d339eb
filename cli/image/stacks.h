// SPDX-License-Identifier: BSD-3-Clause
// Finds the stacks of a process's threads, which the kernel does not name.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "image/image.h"

namespace cli {

struct ThreadStack {
  pid_t thread = 0;
  Address pointer = 0;
};
// The stack pointers of the threads that wait in the kernel, by address. Those of running threads
// are missing.
std::vector<ThreadStack> StackPointers(pid_t pid);
// The default size of a thread's stack in the C library: the limit of the main thread's stack, or 8
// MiB if there is none.
uint64_t ThreadStackBytes(pid_t pid);

// The indices of the mappings that are stacks: the main thread's, those with a stack pointer, and
// those of private anonymous memory right after a guard area, which pthread_create makes.
std::vector<size_t> StacksAmong(const std::vector<Mapping>& mappings,
                                const std::vector<ThreadStack>& stacks, size_t threads);

}  // namespace cli
