// SPDX-License-Identifier: BSD-3-Clause
// Threads of the library's own. Each has a small stack and the signal mask of
// os/blocked_signals.h for life.
#pragma once

#include <pthread.h>

namespace tcmalloc {

// Starts a detached thread. `name` has at most 15 characters. False when the thread cannot be
// started. Allocates. Opens a file: not to be called where a sandbox may forbid that.
bool StartDetachedThread(void* (*run)(void*), const char* name);

// The type of pthread_create.
using CreateThreadFunction = int (*)(pthread_t* thread, const pthread_attr_t* attributes,
                                     void* (*start)(void*), void* argument);

// Starts, by `create`, a thread that must be joined by pthread_join. It has no name of its own, so
// that no system call is made that pthread_create does not make anyway. False when there cannot be
// one. Requires: a BlockedSignals of the caller's. Allocates.
bool StartJoinableThread(CreateThreadFunction create, void* (*run)(void*), pthread_t* thread);

// Whether pthread_create got `start` from this file. An interposed pthread_create tells the
// library's threads from the program's by it.
bool IsOwnThreadStart(void* (*start)(void*));

// Sleeps; may return early. A cancellation point.
void SleepMilliseconds(int ms);

}  // namespace tcmalloc
