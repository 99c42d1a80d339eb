// SPDX-License-Identifier: BSD-3-Clause
// Whether files can be written where a setting says, asked when the process starts: who starts it
// is there to read the answer, and the file itself may be due hours later. Never allocates, no
// cancellation point, errno is kept. Cost: one to three system calls.
#pragma once

namespace tcmalloc {

// 0 when a file of that name can be created, or is there and can be written; else the error number.
// Nothing is created or changed. What happens later, a full disk for example, is not foreseen.
int ErrorOfCreating(const char* path);

// The same for any file in `directory`.
int ErrorOfCreatingIn(const char* directory);

}  // namespace tcmalloc
