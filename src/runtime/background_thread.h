// SPDX-License-Identifier: BSD-3-Clause
// The work that a heap has when nobody calls it: releasing what the program has not needed for some
// seconds. One of three does it:
//   * a thread of the library's, the background thread, in a program that has several threads;
//   * the thread that listens to memory pressure (pressure/pressure.h), where there is one;
//   * nobody, in a program with one thread and where TCMALLOC_BACKGROUND=0 forbids the thread.
//     The heap releases promptly then, while the program frees (page/release_policy.h).
//
// When the thread starts. When a pthread_create of the program's has succeeded, before it returns,
// in the thread that called it (malloc/override_threads.cc); never inside an allocation. That is
// the one moment that is known to be safe:
//   * Locks. malloc is called under every lock that a program or its C library has: the C library
//     frees memory while it holds the list of its stacks, which pthread_create needs as well. But
//     whoever calls pthread_create holds no lock that a second call needs, or the first would not
//     have come back. The second is made of the same function: another library that has the name
//     pthread_create may hold a lock around its call of ours.
//   * Sandboxes. The program has just made all the system calls that a second call makes. A seccomp
//     filter that comes later finds the thread asleep: the caller waits until it has arrived in its
//     loop, where it makes only calls of the table in docs/settings.md. Neither is the thread given
//     a name, since that takes prctl or openat, which the program's own pthread_create does not.
//   * Threads. The process has two at that moment. A vfork child creates none.
// The size of the heap does not matter: most servers start their threads first, and when the heap
// has grown there may never be a safe moment again.
//
// When it ends. The last of the program's threads to end, but for one, stops the background thread
// and waits for its end: a program that has joined its threads can call what a process with threads
// may not (unshare, setns). It makes the system calls there that it is about to make for its own
// end. Threads are counted when they are created and, those that have a cache, when they end: one
// that never allocated keeps the background thread. A thread may end before the background thread
// has come up that was started because of it: both count, then look at what the other has done
// (sequentially consistent), so that one of the two stops it. A program that starts one thread
// after the other, and has no more than one at a time, gets no second background thread within
// kStartAgainMs, or it would pay twice for each.
//
// Fork. A child has no background thread, and gets one when it creates a thread itself. The state
// is reset by its only thread. All signals are blocked in start and stop, so that no handler forks
// in the middle of either: its child would wait for a thread that it does not have.
//
// Sleep. The thread looks once a second while the program frees and for some seconds more, then
// sleeps on `frees` without a timer. NoteFrees raises that word, then looks whether the thread is
// asleep; the thread says that it is asleep, then lets the kernel compare the word with what it was
// before the last look. All four are sequentially consistent: either the freeing thread sees the
// sleeper and wakes it, or the kernel sees the new value and does not let it sleep.
//
// The process's end takes the thread with it, wherever it is; the library is never unloaded
// (-z nodelete) and the heap never destroyed.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/detached_thread.h"

namespace tcmalloc {

struct Heap;

// One thread's turns at the work. Never allocates. Cost of a turn while the program is at work: the
// page heap's lock for a moment; the caches of idle threads are emptied only when nothing much has
// been freed for kFlushTurn seconds.
class BackgroundTurns {
 public:
  static constexpr int kTurnMs = 1000;
  static constexpr int kNever = -1;
  // Of the turns in which nothing was freed: that in which caches are emptied, and that with which
  // all that was freed is forgotten by the release policy, and it is time to sleep.
  static constexpr int kFlushTurn = 2;
  static constexpr int kLastTurn = 7;

  // The work is interrupted when `*stop` is not 0; null for never.
  explicit BackgroundTurns(const std::atomic<uint32_t>* stop = nullptr) : stop_(stop) {}

  // Does what is due. `frees` is any number that changes when pages are freed. Returns the
  // milliseconds until the next turn, or kNever: not before `frees` has changed.
  int Take(Heap& heap, uint32_t frees);

 private:
  const std::atomic<uint32_t>* stop_;
  uint32_t frees_ = 0;
  int quiet_turns_ = 0;
};

// Never returns. Cost: wakes up once a second.
[[noreturn]] void ProcessBackgroundActions(Heap& heap);

// When the library is loaded: whether threads of the program's may bring a background thread about.
// Until then they do not.
void AllowBackgroundThread();
// One that runs until the process ends, at once, where it is allowed. When the library is loaded.
// False when no thread could be started.
bool StartBackgroundThread();

// The calling thread is about to start one of the program's; there is none after all; there is one,
// and `create`, which has started it, has returned. No lock of the library's may be held. errno is
// kept.
void OnThreadStarting();
void OnThreadNotStarted();
void OnThreadStarted(CreateThreadFunction create);
// The calling thread ends, and its cache is no longer registered. Keeps errno.
void OnThreadEnds(Heap& heap);

// The calling thread is the library's and does this work from now on, until the process ends. False
// where another one does it already, or where nobody shall.
bool TakeOverBackgroundWork();
// What `frees` is, where the work was taken over.
uint32_t FreesSoFar();

// Some pages were freed: see PageHeap::SetFreeObserver. Thread safety: any.
void NoteFrees();

// In a forked child, by its only thread.
void ForgetBackgroundThreadInChild();

}  // namespace tcmalloc
