// SPDX-License-Identifier: BSD-3-Clause
// What tells this process from others, and its end.
#pragma once

#include <cstddef>

#include "os/process_id.h"

namespace tcmalloc {

// The program that started this one was itself started with the variable `name` at `value`. False
// also where that cannot be seen.
bool ParentWasStartedWith(const char* name, const char* value);

// Removes a file. False when there is none, or it cannot be removed. Changes errno.
bool RemoveFile(const char* path);

// Makes `from` the file `to`, in place of one that has that name. False, with errno, when it
// cannot.
bool RenameFile(const char* from, const char* to);

// Has `function` called when the process ends by exit, before what was registered earlier. False
// when there is no memory.
bool CallAtExit(void (*function)());

// By a function that is called so, or a destructor: what else was registered is called, and the
// process ends with status 1.
[[noreturn]] void EndWithFailure();

}  // namespace tcmalloc
