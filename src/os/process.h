// SPDX-License-Identifier: BSD-3-Clause
// What tells this process from others, and the signals that it gets.
#pragma once

#include <cstddef>
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

// What a symbolic link names, at most `size` bytes without a zero behind them; 0 bytes when that
// cannot be read.
size_t ReadLink(const char* path, char* buffer, size_t size);

// Has `function` called when the process ends by exit, before what was registered earlier. False
// when there is no memory.
bool CallAtExit(void (*function)());

// By a function that is called so, or a destructor: what else was registered is called, and the
// process ends with status 1.
[[noreturn]] void EndWithFailure();

}  // namespace tcmalloc
