// SPDX-License-Identifier: BSD-3-Clause
// fork() in a program with threads: the child finds a heap in which no lock is held and no
// operation is half done.
#pragma once

namespace tcmalloc {

// Registers the handlers at the first call; does nothing after that. Thread safety: any. May
// allocate.
void InstallForkHandlers();

}  // namespace tcmalloc
