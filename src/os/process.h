// SPDX-License-Identifier: BSD-3-Clause
// The process: its environment, its privileges, its ids, whether a sandbox restricts it, its fork
// and its exit. Never allocates, unless a function says so.
#pragma once

#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/errno_keeper.h"

#ifdef __GLIBC__
// The function that the C library's pthread_atfork calls, with the object that the handlers belong
// to.
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                 void* object);
extern "C" void* __dso_handle;
#endif

// glibc exports these for old programs; no header declares them.
extern "C" {
__attribute__((weak)) void _IO_list_lock();
__attribute__((weak)) void _IO_list_unlock();
__attribute__((weak)) void _IO_list_resetlock();
}

namespace tcmalloc {

// What the process is.

// Calls `visit(name, name_length, value, context)` for each variable of the environment, even
// before the C library has set up `environ` (the dynamic linker allocates earlier). Values are
// zero-terminated and valid until `visit` returns.
using EnvironmentVisitor = void (*)(const char* name, size_t name_length, const char* value,
                                    void* context);
void ForEachEnvironmentVariable(EnvironmentVisitor visit, void* context);

// Whether the process has more privileges than its user: true if the program is setuid or setgid,
// or has file capabilities (AT_SECURE).
bool RunsWithRaisedPrivileges();

// The ids of the calling process and of the calling thread, as the OS, debuggers and ps show them.
// Signal handlers may call these functions.
inline uint64_t ProcessId() { return static_cast<uint64_t>(getpid()); }

// Cost: a system call.
inline uint32_t ThreadId() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

// Whether a sandbox restricts the system calls of this process (seccomp): true when a filter was
// set up before the call. A process cannot find out which calls the filter refuses, and whether it
// refuses them by an error or ends the process. Keeps errno. Cost: a system call. The call would
// end a process in seccomp's strict mode, which forbids memory calls as well.
inline bool HasSystemCallFilter() {
  const ErrnoKeeper keeper;
  return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

// True if the program that started this one was itself started with the variable `name` equal to
// `value`, or may have been: its first thread has ended, and with that its variables. False if they
// cannot be read for another reason.
bool ParentWasStartedWith(const char* name, const char* value);

// Fork: functions that run around it, the lock of the C library's list of open files, and a word
// that shows that a process is a copy.

// Registers functions that run around every fork of the process, as pthread_atfork. glibc links its
// own pthread_atfork into the end of each library, after functions that small programs never run; a
// call of it would make up to 64 KiB of these resident in each program. Thread safety: any.
inline void RegisterForkHandlers(void (*prepare)(), void (*parent)(), void (*child)()) {
#ifdef __GLIBC__
  __register_atfork(prepare, parent, child, &__dso_handle);
#else
  pthread_atfork(prepare, parent, child);
#endif
}

// Locks the C library's list of open files around fork.
//
// glibc takes this lock in fork, after all prepare handlers, and keeps it until the child exists. A
// thread that flushes all files holds it and waits for the lock of a file; a thread that reads a
// line holds that file's lock and may wait for the heap. So our fork handler takes this lock before
// it holds the heap: the order is list of files, file, heap. The lock is recursive, and glibc then
// takes it a second time.
//
// If the C library lacks these functions, this class does nothing.
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

// A word by which a process sees that it is a copy of another one, however it was made: the kernel
// clears its page in children (MADV_WIPEONFORK, Linux 4.14).

// Returns a word that is 1 in this process, and 0 in each process that gets a copy of its memory,
// until the function is called there. Null if the kernel has no such pages. Thread safety: any.
// Keeps errno; a signal handler may call it. Cost: the first call makes three system calls and
// permanently takes a page.
const std::atomic<uint32_t>* WatchForCopies();

// Exit.

// Registers `function` to run when the process ends by exit, before those registered earlier. May
// allocate; false when there is no memory.
bool CallAtExit(void (*function)());

// Called by such a function or a destructor: runs the remaining registered functions and ends the
// process with status 1.
[[noreturn]] void EndWithFailure();

}  // namespace tcmalloc
