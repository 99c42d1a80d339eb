// SPDX-License-Identifier: BSD-3-Clause
// Locks the C library's list of open files around fork.
//
// glibc takes this lock in fork, after all prepare handlers, and keeps it until the child exists. A
// thread that flushes all files holds it and waits for the lock of a file; a thread that reads a
// line holds that file's lock and may wait for the heap. So fork takes this lock before it holds
// the heap: the order is list of files, file, heap. The lock is recursive: glibc takes it once
// more.
//
// Where the C library lacks these functions, this class does nothing.
#pragma once

// Exported by glibc for old programs; in no header.
extern "C" {
__attribute__((weak)) void _IO_list_lock();
__attribute__((weak)) void _IO_list_unlock();
__attribute__((weak)) void _IO_list_resetlock();
}

namespace tcmalloc {

class StdioListLock {
 public:
  // Before fork, and in the parent.
  static void Lock() {
    if (IsKnown()) _IO_list_lock();
  }
  static void Unlock() {
    if (IsKnown()) _IO_list_unlock();
  }
  // In the child. glibc resets the lock itself if the process had several threads; otherwise this
  // thread, the only one, still holds it.
  static void Reset() {
    if (IsKnown()) _IO_list_resetlock();
  }

 private:
  // All or none: a thread that locks must be able to unlock.
  static bool IsKnown() {
    return _IO_list_lock != nullptr && _IO_list_unlock != nullptr && _IO_list_resetlock != nullptr;
  }
};

}  // namespace tcmalloc
