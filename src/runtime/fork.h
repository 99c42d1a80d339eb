// SPDX-License-Identifier: BSD-3-Clause
// fork() in a program with threads: the child finds a heap in which no lock is held and no operation is half done.
#pragma once

namespace tcmalloc {

// Registers the handlers. Called once, from the library's constructor. Allocates.
void InstallForkHandlers();

}  // namespace tcmalloc
