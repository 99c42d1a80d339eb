// SPDX-License-Identifier: BSD-3-Clause
// The parent process's start, files of this process, and its exit.
#pragma once

#include <cstddef>

#include "os/process_id.h"

namespace tcmalloc {

// True if the program that started this one was itself started with the variable `name` equal to
// `value`. False also if that cannot be read.
bool ParentWasStartedWith(const char* name, const char* value);

// Removes a file. False when there is none, or it cannot be removed. Changes errno.
bool RemoveFile(const char* path);

// Renames the file `from` to `to` and replaces a file of that name. On failure returns false and
// sets errno.
bool RenameFile(const char* from, const char* to);

// Registers `function` to run when the process ends by exit, before those registered earlier. False
// when there is no memory.
bool CallAtExit(void (*function)());

// Called by such a function or a destructor: runs the remaining registered functions and ends the
// process with status 1.
[[noreturn]] void EndWithFailure();

}  // namespace tcmalloc
