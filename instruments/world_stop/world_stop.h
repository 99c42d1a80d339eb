// SPDX-License-Identifier: BSD-3-Clause
// Stops all other threads of the process while a function runs.
//
// A task that shares the process's memory and files, but is not one of its threads, attaches to
// every thread as a debugger does (ptrace: PTRACE_SEIZE, PTRACE_INTERRUPT). It looks for more
// threads until the kernel counts no others. Then it reads their registers, runs the function, and
// resumes the threads. The caller waits meanwhile. No signal is sent, so no thread can block it,
// and no handler runs. instruments/world_stop/thread_tracer.h stops and reads the threads, and has
// the protocol between the caller and the task.
//
// Effects on threads. Blocking system calls continue. Those that the kernel does not restart after
// a stop (signal(7): epoll_wait, semop, sigtimedwait, io_getevents, read from inotify) may fail
// with EINTR, as under any debugger.
//
// Failures. If the process is killed meanwhile, the task is killed with it. If the task dies, the
// kernel resumes all threads. If the function faults (SIGSEGV and the like, also SIGSYS from a
// sandbox that rejects a system call), a handler that only the task has ends the task by _exit. No
// signal may end it: before Linux 5.16 a signal that dumps core ends every process that shares the
// memory, which includes this one. A sandbox that kills the task without a signal that can be
// handled kills the process, too. A guarded MemoryReader (instruments/world_stop/memory_reader.h)
// survives its faults.
//
// A thread that sleeps in the kernel (waiting for a disk, or for a child of its vfork that has not
// called exec) does not stop before that wait ends. The attempt then fails after some 20 ms, so
// that the other threads are not delayed; the function has not run. A caller that repeats the
// attempt waits before that. A thread that only waits for a CPU gets more time.
//
// The process is not made dumpable for the time of the stop, since then other processes could
// attach to it, too.
//
// Thread safety: callers ensure that there is one stop at a time; otherwise one stop would wait
// forever for the caller of the other. Never calls malloc, and takes no lock but those of `vm`.
// Cost: the other threads are stopped for some milliseconds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/marker/searched_memory.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

enum class StopOutcome : uint8_t {
  kDone,
  // The function has not run:
  kTraced,        // a thread already has a debugger or strace, and can have only one
  kForbidden,     // the OS forbids it: a sandbox, a process that is not dumpable, Yama
  kNoThreadList,  // /proc is not mounted, or is that of another process namespace
  kNoMemory,      // for the task, its stack or its tables
  kNotInTime,     // a thread did not stop: StopResult::thread_id
  // The function began and did not end:
  kTaskDied,
};

struct StopResult {
  StopOutcome outcome = StopOutcome::kDone;
  // The errno of a system call that failed; with kTaskDied, the signal that ended the task, if any.
  int error = 0;
  // The time from the stop of the first thread until the last one was resumed.
  int64_t pause_ns = 0;
  // With kNotInTime: the thread that did not stop, or 0 if unknown.
  int thread_id = 0;
};

inline constexpr size_t kWorldStopStackBytes = size_t{256} << 10;

// How long one attempt waits for runnable threads.
inline constexpr int64_t kRunnablePatienceMs = 5000;

// Runs function(context, world) while all other threads are stopped. The function runs on the task:
// with the caller's thread-local storage, another stack (kWorldStopStackBytes), its own thread and
// process id, and all signals blocked. It must not take a lock that a stopped thread may hold, nor
// wait for any thread. It may use `vm` if the caller holds all locks of `vm` as for fork, or `vm`
// has none. Keeps errno.
StopResult WithWorldStopped(VirtualMemory& vm,
                            void (*function)(void* context, const WorldStop& world), void* context,
                            int64_t patience_ms = kRunnablePatienceMs);

// Runs function(context, world) on such a task while the other threads run, for use where they
// cannot be stopped. The world has only the caller, which waits. Other threads may unmap memory
// that the function reads. Returns kDone, kTaskDied, or an outcome with the reason why there was no
// task.
StopResult WithCallerOnly(VirtualMemory& vm,
                          void (*function)(void* context, const WorldStop& world), void* context);

// Whether the calling thread has a debugger. Cost: a read of a file.
bool IsTraced();

}  // namespace tcmalloc
