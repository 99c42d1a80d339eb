// SPDX-License-Identifier: BSD-3-Clause
// A call at the end of each thread that asked for it, after the destructors of the thread's C++
// thread_local objects and among those of its pthread keys.
#pragma once

namespace tcmalloc {

class ThreadExitHook {
 public:
  // `on_exit(value)` is to be called at the end of each thread that called Arm(value) with a value
  // that is not null; with glibc also when it called that in the last destructor of another key
  // (see thread_exit.cc). Returns false when the process has no key left. Called once. Does not
  // allocate.
  static bool Init(void (*on_exit)(void*));

  // Arms the calling thread. May allocate through malloc (the C library keeps the values of
  // high-numbered keys in memory that it callocs); the caller must be able to serve that. Returns
  // false when that failed.
  static bool Arm(void* value);

  // The calling thread may be where no destructor of a pthread key runs any more, so that arming it
  // would be in vain: the C library is taking it down. Told by the signals that the C library
  // keeps for itself (they cannot be blocked through its functions): it blocks them for that last
  // part, before it frees what it holds for the thread. Also true in other places where it
  // blocks them, and when a sandbox forbids to ask; not true in time with C libraries that do not
  // block them (glibc before 2.34). Cost: a system call.
  static bool MayHavePassed();
};

}  // namespace tcmalloc
