// SPDX-License-Identifier: BSD-3-Clause
// The calling thread's slot, and the cache that hangs on it for as long as the thread lives.
#pragma once

#include "base/compiler.h"
#include "cache/thread_cache.h"
#include "heap/fast_path_data.h"

namespace tcmalloc {

// The calling thread's cache, created when it has none yet. Null where it shall have none: while it
// is being created, after the thread's end has begun, with TCMALLOC_CHECK=1, or when there is no
// memory for one. Builds the heap.
TC_SLOW_PATH ThreadCache* CurrentCache();

// The same for a free. A thread that has only freed so far gets a cache when it goes on doing so,
// and only while its exit is certain to be noticed: the C library frees memory, too, when it takes
// a thread down that never called malloc, behind all its destructors.
TC_SLOW_PATH ThreadCache* CacheForFree();

// Asks the system to call back at the end of threads. Called once, when the heap is built.
void InitThreadExit();

}  // namespace tcmalloc
