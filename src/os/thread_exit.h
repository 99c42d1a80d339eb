// SPDX-License-Identifier: BSD-3-Clause
// A call at the end of each thread that asked for it, after the destructors of the thread's C++
// thread_local objects and among those of its pthread keys.
#pragma once

namespace tcmalloc {

class ThreadExitHook {
 public:
  // `on_exit(value)` is to be called at the end of each thread that called Arm(value) with a value
  // that is not null. Returns false when the process has no key left. Called once. Does not
  // allocate.
  static bool Init(void (*on_exit)(void*));

  // Arms the calling thread. May allocate through malloc (the C library keeps the values of
  // high-numbered keys in memory that it callocs); the caller must be able to serve that. Returns
  // false when that failed.
  static bool Arm(void* value);
};

}  // namespace tcmalloc
