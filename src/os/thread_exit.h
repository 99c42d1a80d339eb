// SPDX-License-Identifier: BSD-3-Clause
// Runs a function at the end of each thread that requested it, after the destructors of the
// thread's C++ thread_local objects and among those of its pthread keys.
#pragma once

namespace tcmalloc {

class ThreadExitHook {
 public:
  // Calls `on_exit(value)` at the end of each thread that called Arm(value) with a value that is
  // not null. With glibc that also holds for a call in the last destructor of another key (see
  // thread_exit.cc). False when the process has no key left. Called once. Does not allocate.
  static bool Init(void (*on_exit)(void*));

  // Arms the calling thread. May call malloc, which must work, since the C library keeps the values
  // of high-numbered keys in memory from calloc. False if that failed.
  static bool Arm(void* value);

  // True if the C library may be past the last pthread key destructor of the calling thread, so
  // that arming it would have no effect. The sign is that the signals are blocked that the C
  // library reserves for itself, and that its functions cannot block: it blocks them for the last
  // part of a thread's end, before it frees its data of the thread. Also true in other places where
  // the C library blocks them, and when a sandbox forbids the query. Returns false even then with C
  // libraries that do not block them (glibc before 2.34). Cost: a system call.
  static bool MayHavePassed();
};

}  // namespace tcmalloc
