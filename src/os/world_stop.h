// SPDX-License-Identifier: BSD-3-Clause
// Stopping all other threads of the process for the length of a function.
//
// A task that shares the process's memory and files, but is no thread of it, attaches to every
// thread as a debugger does (ptrace: PTRACE_SEIZE, PTRACE_INTERRUPT), looks for more until the
// system counts no others, reads their registers, runs the function and lets them go. No signal is
// sent, so none can be blocked, and no handler runs. The caller waits meanwhile.
//
// What threads see: system calls that wait go on waiting; those that the system does not restart
// after a stop (signal(7): epoll_wait, semop, sigtimedwait, io_getevents, read from inotify) may
// fail with EINTR, as under any debugger.
//
// Ends. When the process is killed meanwhile, the task is killed with it. When the task dies, of a
// fault in the function, the system lets all threads go. A thread that does not stop in time (one
// that waits for a disk, or for the child of its vfork) makes the attempt fail; the function has
// not run then.
//
// Not done: making a process that is not dumpable so for the time of the stop, since then others
// could attach to it as well.
//
// Nothing here allocates through malloc or takes a lock but `vm`'s. Thread safety: one stop at a
// time, which the caller sees to: of two one would wait for the other's caller in vain.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/virtual_memory.h"

namespace tcmalloc {

struct StoppedThread {
  int thread_id = 0;
  // The thread that called WithWorldStopped: what that call found.
  bool is_caller = false;
  uintptr_t stack_pointer = 0;
  // Where its thread-local storage is found from: the base of segment fs (x86-64) or gs (i386),
  // tpidr_el0 (aarch64). 0 where that is not known.
  uintptr_t thread_pointer = 0;
  // What is in its registers, those for vectors included, word by word.
  const uintptr_t* registers = nullptr;
  size_t num_registers = 0;
};

struct WorldStop {
  // The caller first.
  const StoppedThread* threads = nullptr;
  size_t num_threads = 0;
  // These are all threads of the process that have not ended.
  bool is_complete = false;
  // The thread that the process began with, which may have ended.
  int process_id = 0;
};

enum class StopOutcome : uint8_t {
  kDone,
  // The function was not run:
  kTraced,        // some thread has a debugger (or strace) already, and can have one only
  kForbidden,     // the system does not allow it: a sandbox, a process that is not dumpable, Yama
  kNoThreadList,  // /proc is not there, or that of other processes
  kNoMemory,      // for the task, its stack or its tables
  kNotInTime,     // some thread did not stop
  // The function was begun:
  kTaskDied,
};

struct StopResult {
  StopOutcome outcome = StopOutcome::kDone;
  // An errno, where a system call failed; with kTaskDied the signal, if it was one.
  int error = 0;
  // From the first thread's stop until the last one went on.
  int64_t pause_ns = 0;
};

// How long the threads are waited for.
inline constexpr int64_t kWorldStopPatienceMs = 5000;
inline constexpr size_t kWorldStopStackBytes = size_t{256} << 10;

// Runs function(context, world) while all other threads stand still. It runs on the task: with the
// caller's thread-local storage, another stack (kWorldStopStackBytes), a thread and process number
// of its own, and all signals blocked. It must not take a lock that a stopped thread may hold, nor
// wait for anyone. It may use `vm`, if all locks of that are held as for fork, or it has none.
// Keeps errno.
StopResult WithWorldStopped(VirtualMemory& vm,
                            void (*function)(void* context, const WorldStop& world), void* context,
                            int64_t patience_ms = kWorldStopPatienceMs);

// Runs function(context, world) on the calling thread, with nothing in the world but that: for
// where the others cannot be stopped.
void WithCallerOnly(void (*function)(void* context, const WorldStop& world), void* context);

// The calling thread has a debugger. Cost: a read of a file.
bool IsTraced();

}  // namespace tcmalloc
