// SPDX-License-Identifier: BSD-3-Clause
// The calling thread's slot, and its cache, which lives as long as the thread.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "base/tuned.h"
#include "process/fast_path_data.h"
#include "thread_cache/thread_cache.h"

namespace tcmalloc {

// A thread that allocates nothing gets a cache after this many frees. Receiving a message or two
// does not justify a cache. Not measured.
inline constexpr uint8_t kFreesBeforeCache = Tuned(16, 0, 100);

// The calling thread's cache, created at the first call. Null while it is being created, after the
// thread's end has begun, with TCMALLOC_CHECK=1, and when there is no memory for it. Builds the
// heap.
TC_SLOW_PATH ThreadCache* CurrentCache();

// As CurrentCache, for a free. A thread that has only freed so far gets a cache after a few frees,
// and only if the library is certain to notice the thread's exit: when a thread that never called
// malloc ends, the C library frees memory after all destructors have run.
TC_SLOW_PATH ThreadCache* CacheForFree();

// Called by a thread of the program before its start function: the library will notice its end even
// if it never allocates. Keeps errno.
void NoteThreadBegins();

// Registers the function that runs at the end of threads. Called once, when the heap is built.
void InitThreadExit();

}  // namespace tcmalloc
