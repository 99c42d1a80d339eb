// SPDX-License-Identifier: BSD-3-Clause
// What tells this process from others, and the signals that it gets.
#pragma once

#include <cstdint>

namespace tcmalloc {

// The number of the process.
uint64_t ProcessId();

// The program that started this one was itself started with the variable `name` at `value`. False
// also where that cannot be seen.
bool ParentWasStartedWith(const char* name, const char* value);

// Removes a file. False when there is none, or it cannot be removed. Changes errno.
bool RemoveFile(const char* path);

// Has `handler` called for the signal, with system calls restarted. False when there is no such
// signal, or it is handled or ignored already.
bool HandleSignal(int signal, void (*handler)(int));

}  // namespace tcmalloc
