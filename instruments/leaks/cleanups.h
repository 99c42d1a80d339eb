// SPDX-License-Identifier: BSD-3-Clause
// Functions that the program registered. They run before the check at the program's end, and free
// memory that only they can free.
//
// Thread safety: any thread. Cost: a few instructions, and a record from the heap's arena.
#pragma once

namespace tcmalloc {

// Does nothing when there is no memory.
void AddCleanup(void (*function)());
// Calls each function added so far once, the last one first.
void RunCleanups();

}  // namespace tcmalloc
