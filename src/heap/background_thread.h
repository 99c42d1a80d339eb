// SPDX-License-Identifier: BSD-3-Clause
// Which thread runs idle release (heap/idle_release.h):
//   * in a program with several threads, a thread of the library's: the background thread;
//   * the thread that listens to memory pressure (tools/pressure/pressure.h), where there is one;
//   * none in a program with one thread, and where TCMALLOC_BACKGROUND=0 forbids it. The heap then
//     releases promptly while the program frees (page/release_policy.h).
//
// Start. When a pthread_create of the program's has succeeded, before it returns, in the calling
// thread (entry/shared/override_threads.cc); never inside an allocation. Why this moment is safe:
//   * Locks. malloc is called under every lock of the program and of its C library: the C library
//     frees memory under the lock of its list of stacks, which pthread_create takes. A caller of
//     pthread_create holds no lock that a second call takes, or the first would not have returned.
//     The second call is of the same function: another library that interposes pthread_create may
//     hold a lock around its call of ours.
//   * Sandboxes. The program has just made all system calls that the second call makes. The caller
//     waits until the thread is in its loop, where it makes only calls of the first table of
//     docs/settings.md. So a seccomp filter that is installed later does not end the process for
//     it. The thread gets no name: that takes prctl or openat, which pthread_create does not call.
//   * Threads. The process has two. A vfork child creates none.
// The size of the heap does not decide: most servers start their threads first, and when the heap
// has grown there may be no safe moment any more (decision 0033).
//
// End. The last thread but one of the program stops the background thread when it ends, and waits
// for its end: a program that has joined its threads can call what needs a process with one thread
// (unshare, setns). At that moment the thread is about to make the same system calls for its own
// end. Threads are counted when they are created and, those that have a cache, when they end: one
// that never allocated keeps the background thread. A thread may end before the background thread
// runs that was started because of it: both sides count first, then look at what the other has done
// (sequentially consistent), so that one of them stops it. A program that starts one thread after
// the other, or a few at a time again and again, does not get a background thread each time (the
// numbers of starts in Tuning::IdleRelease).
//
// Fork. A child has no background thread, and gets one when it creates a thread. Signals are
// blocked during start and stop, so that no handler forks in the middle: its child would wait for a
// thread that it does not have.
//
// Sleep. When the passes have nothing to do, the thread sleeps on `frees` without a timer.
// OnPagesFreed increments that word, then checks whether the thread is asleep. The thread says that
// it is asleep, then lets the kernel compare the word with its value before the last pass. All four
// are sequentially consistent: either OnPagesFreed sees the sleeper and wakes it, or the kernel
// sees the new value and returns at once.
//
// The library is never unloaded (-z nodelete) and the heap never destroyed, so the thread may be
// anywhere when the process exits.
#pragma once

#include <cstdint>

#include "os/detached_thread.h"

namespace tcmalloc {

struct Heap;

// When the library is loaded: from now on threads of the program may bring a background thread
// about. One starts at once when the program has created threads before.
void AllowBackgroundThread();
// Starts a background thread that runs until the process ends, where it is allowed. When the
// library is loaded. False when no thread could be started.
bool StartBackgroundThread();

// The calling thread is about to create one of the program's threads; it could not; it has, by
// `create`. Keep errno. Requires: no lock of the library's is held.
void OnThreadStarting();
void OnThreadNotStarted();
void OnThreadStarted(CreateThreadFunction create);
// The calling thread ends, and its cache is no longer registered. Keeps errno.
void OnThreadEnds(Heap& heap);

// The calling thread is the library's and runs idle release from now on, until the process ends.
// False where another one does, or where none shall.
bool ClaimIdleRelease();

// Some pages were freed: see PageHints::free_observer. Thread safety: any.
void OnPagesFreed();
// Changes with each call of OnPagesFreed.
uint32_t NumFrees();

// In a forked child, by its only thread.
void ResetBackgroundThreadInChild();

}  // namespace tcmalloc
