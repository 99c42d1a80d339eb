// SPDX-License-Identifier: BSD-3-Clause
// The lock of the C library's list of open files, around fork.
//
// glibc takes it in fork, after all prepare handlers, and keeps it until the child is there. A
// thread that flushes all files holds it and waits for a file's lock; whoever has that, a thread
// that reads a line, may wait for the heap. So whoever holds the heap must have this lock already:
// the order is list of files, file, heap. The lock is recursive: glibc takes it once more.
//
// Where the C library has no such functions, none of this does anything.
#pragma once

// Exported by glibc for the sake of old programs; in no header.
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
  // In the child. glibc has done so itself where it took the process for one with threads; else the
  // lock is still held by this thread, the only one.
  static void Reset() {
    if (IsKnown()) _IO_list_resetlock();
  }

 private:
  // All or none: who locks must be able to unlock.
  static bool IsKnown() {
    return _IO_list_lock != nullptr && _IO_list_unlock != nullptr && _IO_list_resetlock != nullptr;
  }
};

}  // namespace tcmalloc
