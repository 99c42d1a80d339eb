// SPDX-License-Identifier: BSD-3-Clause
// The work that a heap has when nobody calls it: giving back what is due. For a thread of the
// program's, or for one of the library's own, which is started only when the program's environment
// says so, and when the library is loaded, never inside an allocation: the first malloc may come
// from the middle of pthread_create or of the dynamic linker.
#pragma once

namespace tcmalloc {

struct Heap;

// Never returns. Cost: wakes up a few times a second while there is something to give back, else
// once a second.
[[noreturn]] void ProcessBackgroundActions(Heap& heap);

// One turn of it; returns the milliseconds until the next.
int DoBackgroundActions(Heap& heap);

// A thread that does so, with all signals blocked. It is not there in forked children. False when
// there cannot be one.
bool StartBackgroundThread();

}  // namespace tcmalloc
