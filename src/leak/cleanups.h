// SPDX-License-Identifier: BSD-3-Clause
// Functions that the program wants to be called before it is checked at its end, to free what only
// they can free.
//
// Thread safety: any thread. Cost: a few instructions; a record from the heap's arena.
#pragma once

namespace tcmalloc {

// Without memory the function is not called.
void AddCleanup(void (*function)());
// Calls the functions added so far, the last one first, each once.
void RunCleanups();

}  // namespace tcmalloc
