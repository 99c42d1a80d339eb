// SPDX-License-Identifier: BSD-3-Clause
// Which thread runs idle release (process/release.h):
//   * in a program with several threads, a thread of the library: the background thread;
//   * if there is a thread that listens to memory pressure, that thread
//     (instruments/pressure/pressure.h);
//   * none in a program with one thread, and where TCMALLOC_BACKGROUND=0 forbids it. Threads of the
//     program then release what is due on their slow paths (PageHeap::ReleaseIdle).
//
// Start. When the program calls pthread_create, the calling thread starts the background thread
// before it creates the program's thread (malloc/override_threads.cc). It never starts inside
// an allocation. Why this moment is safe:
//   * Locks. malloc may be called under every lock of the program and of its C library: the C
//     library frees memory under the lock of its list of stacks, which pthread_create takes. A
//     caller of pthread_create holds no lock that pthread_create takes, or its own call would not
//     return. Our call is of the same function as the program's: another library that interposes
//     pthread_create may hold a lock around its call of ours.
//   * Sandboxes. The program is about to make the same system calls that our call makes, and its
//     thread, which may install a filter for the whole process, does not exist yet. The caller
//     waits until our thread is in its loop, where it makes only calls of the first table of
//     docs/settings.md. So a seccomp filter that is installed later does not end the process
//     because of this thread. The thread gets no name: that takes prctl or openat, which
//     pthread_create does not call.
//   * Threads. The process is about to have two threads anyway. If the program's thread cannot be
//     created, ours ends, and the program's is tried once more. A vfork child creates no background
//     thread.
// The size of the heap does not matter: most servers start their threads first, and when the heap
// has grown there may be no safe moment any more (decision 0033). Why threads begin in the library:
// decision 0055.
//
// End. The last thread but one of the program stops the background thread when it ends, and waits
// for its end: a program that has joined its threads can make calls that need a process with one
// thread (unshare, setns). At that moment the thread is about to make the same system calls for its
// own end. A thread is counted before it is created, and no longer when it ends, whatever it did in
// between: it begins in the library, which arms the hook at its end. So the count is never lower
// than the number of counted threads that have not passed the hook, and the last one to pass it
// finds 0. Threads that are not counted, which a static program or thrd_create makes, keep the
// background thread while they have caches. If the thread of main ends by pthread_exit, the last of
// the other threads stops the background thread, and the lasting threads as well (LastingThread).
// Two threads that end at once each change the count first, then read the other's change
// (sequentially consistent), so that one of them stops the thread. The thread that stops it tests
// the count again when no other thread can stop or start it. A program that creates and joins
// threads again and again does not get a background thread each time (kQuickStarts).
//
// Fork. A child has no background thread, and gets one when it creates a thread. Signals are
// blocked during start and stop, so that no handler forks in the middle: its child would wait for a
// thread that it does not have. A stray child (process/fork.h) never has one.
//
// Sleep. When the passes have nothing to do, the thread sleeps on `asleep` without a timer. It sets
// that word to kUntilFrees, then compares `frees` with its value before the last pass, and sleeps
// if it is the same. OnPagesFreed increments `frees`, then, if `asleep` has the bit of kUntilFrees,
// sets it to 0 and wakes the sleeper. All these accesses are sequentially consistent: either
// OnPagesFreed sees the bit, or the thread sees the new number. A late wake-up may set `asleep` to
// 0 for a later sleep, which then does not begin, or is woken. For the pause from one pass to the
// next the thread sleeps on the same word with a timer. The word is then kForATime, which
// OnPagesFreed does not change. The thread that stops the background thread sets `stop`, then sets
// `asleep` to 0, and wakes it.
//
// Requests from outside (process/control.h). After it has set `asleep` the thread looks for a
// request, too, and does not sleep if there is one. A futex cannot be woken from another process,
// but the kernel looks at the word again when an interrupted wait continues. So the tcmalloc
// command writes its request, then stores another value with the bit of kUntilFrees into `asleep`
// if that is not 0, then stops the thread for a moment with ptrace. Either the thread sees the
// request before it sleeps, or the wait ends because the word has changed. If the command dies
// before it has stopped the thread, the next OnPagesFreed sees the bit and wakes the thread.
//
// The library is never unloaded (-z nodelete) and the heap never destroyed, so the thread may be
// anywhere when the process exits.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "os/threads.h"

namespace tcmalloc {

struct Heap;

// A thread of the library that runs until the program's last thread ends. The C library ends the
// process with the last of all threads. So the program's last thread, if that is not main's, stops
// the lasting threads for good when it ends, and waits for their ends: it runs the exit handlers,
// as it would without the library. It is the thread that finds main ended, and nothing left that
// would keep the background thread (see End). A lasting thread that runs code of the program must
// have no thread cache, or it would keep itself. A forked child has none of its parent's.
struct LastingThread {
  enum State : uint32_t { kNone, kStarting, kRuns };

  void* (*run)(void*) = nullptr;
  const char* name = nullptr;  // at most 15 characters
  // Wakes the thread from any sleep, so that it sees program_has_ended and returns. Another thread
  // calls it once, after the change.
  void (*wake)() = nullptr;
  // A futex. Sequentially consistent with program_has_ended.
  std::atomic<uint32_t> state{kNone};
  pthread_t thread{};  // written in kStarting
};

// A futex: 1 when the lasting threads must end.
extern constinit std::atomic<uint32_t> program_has_ended;

// Starts the thread, which does not run. The object lives as long as the process. False if no
// thread could be started, or the program has ended. Opens a file and allocates.
[[nodiscard]] bool StartLastingThread(LastingThread* lasting);

// Called first by each lasting thread. Another library's pthread_create may have made it look like
// a thread of the program.
void BeginLastingThread();

// Called when the library is loaded, as a rule in the thread of main.
void NoteMainThread();

// Called when the library is loaded: from now on the creation of a thread may start the background
// thread. It starts at once if the program has created threads before.
void AllowBackgroundThread();
// Called when the library is loaded. Starts a background thread that is a lasting thread, unless
// another thread runs idle release. False if no thread could be started.
bool StartBackgroundThread();

// Called when the calling thread is about to create one of the program's threads by `create`. May
// start the background thread, unless `create` is null. Keeps errno.
void OnThreadStarting(CreateThreadFunction create);
// Called when that thread could not be created. True if this stopped the background thread, so that
// another try may succeed. Keeps errno.
bool OnThreadNotStarted();
// Called by that thread before its start function, unless it could not be created.
void OnThreadBegins();
// Called when the calling thread ends, after its cache, if any, was unregistered. Keeps errno.
void OnThreadEnds();

// Declares that the calling thread, which belongs to the library, runs idle release until the
// process ends. False if another thread runs it, or if no thread may run it.
bool TakeIdleRelease();

// Called after pages were freed: see PageHints::free_observer. Thread safety: any.
void OnPagesFreed();
// A number that changes with each call of OnPagesFreed.
uint32_t NumFrees();

// Called in a forked child, by its only thread.
void ResetBackgroundThreadInChild();

}  // namespace tcmalloc
