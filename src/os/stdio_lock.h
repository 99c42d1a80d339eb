// SPDX-License-Identifier: BSD-3-Clause
// Locks the C library's list of open files around fork.
//
// glibc takes this lock in fork, after all prepare handlers, and keeps it until the child exists. A
// thread that flushes all files holds it and waits for the lock of a file; a thread that reads a
// line holds that file's lock and may wait for the heap. So our fork handler takes this lock before
// it holds the heap: the order is list of files, file, heap. The lock is recursive, and glibc then
// takes it a second time.
//
// If the C library lacks these functions, this class does nothing.
#pragma once

// glibc exports these for old programs; no header declares them.
extern "C" {
__attribute__((weak)) void _IO_list_lock();
__attribute__((weak)) void _IO_list_unlock();
__attribute__((weak)) void _IO_list_resetlock();
}

namespace tcmalloc {

class StdioListLock {
 public:
  // Lock is called before fork, Unlock in the parent.
  static void Lock() {
    if (IsKnown()) _IO_list_lock();
  }
  static void Unlock() {
    if (IsKnown()) _IO_list_unlock();
  }
  // Called in the child. glibc resets the lock itself if the process had several threads; otherwise
  // this thread, the only one, still holds it.
  static void Reset() {
    if (IsKnown()) _IO_list_resetlock();
  }

 private:
  // The functions are used only if all exist: a thread that locks must be able to unlock.
  static bool IsKnown() {
    return _IO_list_lock != nullptr && _IO_list_unlock != nullptr && _IO_list_resetlock != nullptr;
  }
};

}  // namespace tcmalloc
