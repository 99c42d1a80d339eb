// SPDX-License-Identifier: BSD-3-Clause
// Threads of the library's own.
#pragma once

namespace tcmalloc {

// Starts a detached thread with a small stack, which runs no signal handlers. `name` has at most 15
// characters. False when the thread cannot be started. Allocates.
bool StartDetachedThread(void* (*run)(void*), const char* name);

// Sleeps; may return early. A cancellation point.
void SleepMilliseconds(int ms);

}  // namespace tcmalloc
