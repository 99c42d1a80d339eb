// SPDX-License-Identifier: BSD-3-Clause
// A thread of the library's own.
#pragma once

namespace tcmalloc {

// Starts a detached thread with a small stack, on which no signal handler ever runs. `name` has at
// most 15 characters. False when there cannot be one. Allocates.
bool StartDetachedThread(void* (*run)(void*), const char* name);

// Sleeps; may return early. A cancellation point.
void SleepMilliseconds(int ms);

}  // namespace tcmalloc
