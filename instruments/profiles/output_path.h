// SPDX-License-Identifier: BSD-3-Clause
// Checks at the start of the process whether files can be written at the path of a setting: the
// user who starts the process can read the message, while the file may be due hours later. Never
// allocates, is no cancellation point, keeps errno. Cost: one to three system calls.
#pragma once

namespace tcmalloc {

// 0 when files like that one can be created in its directory; otherwise the error number. A file
// that exists is no error: the caller replaces it or takes another name. Creates and changes
// nothing. Cannot predict later failures, for example a full disk.
int ErrorOfCreating(const char* path);

// Like ErrorOfCreating, for any file in `directory`.
int ErrorOfCreatingIn(const char* directory);

}  // namespace tcmalloc
