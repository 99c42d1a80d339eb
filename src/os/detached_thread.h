// SPDX-License-Identifier: BSD-3-Clause
// Threads of the library's own. Each has a small stack, and no signal handler ever runs on it but
// the C library's own (setuid and its like change the rights of all threads by a signal).
#pragma once

#include <pthread.h>

namespace tcmalloc {

// Starts a detached thread. `name` has at most 15 characters. False when there cannot be one.
// Allocates. Opens a file: not where a sandbox may forbid it.
bool StartDetachedThread(void* (*run)(void*), const char* name);

// pthread_create, or what stands for it.
using CreateThreadFunction = int (*)(pthread_t* thread, const pthread_attr_t* attributes,
                                     void* (*start)(void*), void* argument);

// Starts, by `create`, a thread that its starter joins by pthread_join, without a name of its own:
// makes no system calls that pthread_create does not make anyway. False when there cannot be one.
// Requires: the caller has blocked all signals (os/blocked_signals.h). Allocates.
bool StartJoinableThread(CreateThreadFunction create, void* (*run)(void*), pthread_t* thread);

// `start` is the function that pthread_create is given for these threads, by which an interposed
// pthread_create tells them from the program's.
bool IsOwnThreadStart(void* (*start)(void*));

// Sleeps; may return early. A cancellation point.
void SleepMilliseconds(int ms);

}  // namespace tcmalloc
