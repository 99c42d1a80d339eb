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
// Ends. When the process is killed meanwhile, the task is killed with it. When the task dies, the
// system lets all threads go. Faults of the function's (SIGSEGV and the like, also of a sandbox
// that answers a system call with SIGSYS) end the task by _exit, in handlers that only it has: no
// signal ends it, because before Linux 5.16 one that dumps core ends every process that shares the
// memory, which is all of this one. A sandbox that kills without a signal that can be handled does
// so there. A guarded MemoryReader (os/memory_reader.h) survives its faults.
//
// A thread that waits in the kernel for something else (a disk, a child of its vfork that has not
// called exec) does not stop before that is over. The attempt fails after some 20 ms then, so that
// the others are not held up by it; the function has not run. Whoever tries again lets some time
// pass. A thread that is only waiting for a processor is waited for longer.
//
// Not done: making a process that is not dumpable so for the time of the stop, since then others
// could attach to it as well.
//
// Nothing here allocates through malloc or takes a lock but `vm`'s. Thread safety: one stop at a
// time, which the caller sees to: of two one would wait for the other's caller in vain.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tuning.h"
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
  kNotInTime,     // some thread did not stop: StopResult::thread_id
  // The function was begun:
  kTaskDied,
};

struct StopResult {
  StopOutcome outcome = StopOutcome::kDone;
  // An errno, where a system call failed; with kTaskDied the signal, if it was one.
  int error = 0;
  // From the first thread's stop until the last one went on.
  int64_t pause_ns = 0;
  // With kNotInTime the thread that did not stop; 0 where that is not known.
  int thread_id = 0;
};

inline constexpr size_t kWorldStopStackBytes = size_t{256} << 10;

// Runs function(context, world) while all other threads stand still. It runs on the task: with the
// caller's thread-local storage, another stack (kWorldStopStackBytes), a thread and process number
// of its own, and all signals blocked. It must not take a lock that a stopped thread may hold, nor
// wait for anyone. It may use `vm`, if all locks of that are held as for fork, or it has none.
// Keeps errno.
StopResult WithWorldStopped(VirtualMemory& vm,
                            void (*function)(void* context, const WorldStop& world), void* context,
                            int64_t patience_ms = kTuning.leak_check.runnable_patience_ms);

// Runs function(context, world) on such a task, too, while the other threads run on, with nothing
// in the world but the caller, which waits: for where the others cannot be stopped. They may unmap
// what the function reads. kDone, kTaskDied, or an outcome that says why there was no task.
StopResult WithCallerOnly(VirtualMemory& vm,
                          void (*function)(void* context, const WorldStop& world), void* context);

// The calling thread has a debugger. Cost: a read of a file.
bool IsTraced();

}  // namespace tcmalloc
