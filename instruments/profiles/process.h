// SPDX-License-Identifier: BSD-3-Clause
// What profiles and reports ask of the OS: where files can be written, files of this process, its
// parent's start, its exit, and the numbers of signals.
#pragma once

#include <cstddef>
#include <string_view>

#include "os/environment.h"

namespace tcmalloc {

// True if the program that started this one was itself started with the variable `name` equal to
// `value`. False also if that cannot be read.
bool ParentWasStartedWith(const char* name, const char* value);

// Removes a file. False if it does not exist or cannot be removed. Changes errno.
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

// Checks at the start of the process whether files can be written at the path of a setting: the
// user who starts the process can read the message, while the file may be due hours later. Never
// allocate, are no cancellation points, keep errno. Cost: one to three system calls.
//
// 0 when files like that one can be created in its directory; otherwise the error number. A file
// that exists is no error: the caller replaces it or takes another name. Creates and changes
// nothing. Cannot predict later failures, for example a full disk.
int ErrorOfCreating(const char* path);

// Like ErrorOfCreating, for any file in `directory`.
int ErrorOfCreatingIn(const char* directory);

// The number of the signal `name`: a name with or without SIG, or a decimal number. 0 when there is
// no such signal, or programs cannot handle it. A pure function.
int SignalNumber(std::string_view name);

}  // namespace tcmalloc
