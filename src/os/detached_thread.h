// SPDX-License-Identifier: BSD-3-Clause
// The library's own threads. Each has a small stack, and the signal mask of os/signals.h
// for its whole life.
#pragma once

#include <pthread.h>

namespace tcmalloc {

// Starts a detached thread. `name` has at most 15 characters. False when the thread cannot be
// started. Allocates. It opens a file, so it must not be called where a sandbox may forbid that.
bool StartDetachedThread(void* (*run)(void*), const char* name);

// The type of pthread_create.
using CreateThreadFunction = int (*)(pthread_t* thread, const pthread_attr_t* attributes,
                                     void* (*start)(void*), void* argument);

// Starts, by `create`, a thread that must be joined by pthread_join. The thread gets no name, so
// the only system calls are those of pthread_create. False when no thread can be created. Requires:
// the caller has a BlockedSignals. Allocates.
bool StartJoinableThread(CreateThreadFunction create, void* (*run)(void*), pthread_t* thread);

// Whether `start` is the start function of the threads of this file. By it an interposed
// pthread_create distinguishes the library's threads from the program's.
bool IsOwnThreadStart(void* (*start)(void*));

// Sleeps; may return early. It is a cancellation point.
void SleepMilliseconds(int ms);

}  // namespace tcmalloc
