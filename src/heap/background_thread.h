// SPDX-License-Identifier: BSD-3-Clause
// Which thread runs idle release (heap/idle_release.h):
//   * in a program with several threads, a thread of the library's: the background thread;
//   * the thread that listens to memory pressure (tools/pressure/pressure.h), where there is one;
//   * none in a program with one thread, and where TCMALLOC_BACKGROUND=0 forbids it. The heap then
//     releases promptly while the program frees (page/release_policy.h).
//
// Start. When the program calls pthread_create, before its own thread is created, in the calling
// thread (entry/shared/override_threads.cc); never inside an allocation. Why this moment is safe:
//   * Locks. malloc is called under every lock of the program and of its C library: the C library
//     frees memory under the lock of its list of stacks, which pthread_create takes. A caller of
//     pthread_create holds no lock that a call of it takes, or its own call would not return. Ours
//     is of the same function: another library that interposes pthread_create may hold a lock
//     around its call of ours.
//   * Sandboxes. The program is about to make all system calls that our call makes, and its thread,
//     which may install a filter for the whole process, does not exist yet. The caller waits until
//     our thread is in its loop, where it makes only calls of the first table of docs/settings.md.
//     So a seccomp filter that is installed later does not end the process for it. The thread gets
//     no name: that takes prctl or openat, which pthread_create does not call.
//   * Threads. The process is about to have two; if the program's cannot be created, ours ends, and
//     the program's is tried once more. A vfork child creates none.
// The size of the heap does not decide: most servers start their threads first, and when the heap
// has grown there may be no safe moment any more (decision 0033).
//
// End. The last thread but one of the program stops the background thread when it ends, and waits
// for its end: a program that has joined its threads can call what needs a process with one thread
// (unshare, setns). At that moment the thread is about to make the same system calls for its own
// end. Threads are counted when they are created and, those that have a cache, when they end: one
// that never allocated keeps the background thread. The thread of main stops it for good when it
// ends by pthread_exit: the process ends with the last of the others. Each side counts first, then
// looks at what the other has done (sequentially consistent), so that one of them stops it; and the
// thread that stops it looks again once no other can. A program that starts one thread after
// the other, or a few at a time again and again, does not get a background thread each time (the
// numbers of starts in Tuning::IdleRelease).
//
// Fork. A child has no background thread, and gets one when it creates a thread. Signals are
// blocked during start and stop, so that no handler forks in the middle: its child would wait for a
// thread that it does not have.
//
// Sleep. When the passes have nothing to do, the thread sleeps on `asleep` without a timer. It sets
// that word to 1, then compares `frees` with its value before the last pass, and sleeps if it is
// the same. OnPagesFreed increments `frees`, then, if `asleep` is not 0, sets it to 0 and wakes the
// sleeper. All are sequentially consistent: either OnPagesFreed sees the 1, or the thread sees the
// new number. A late wake-up sets `asleep` to 0 of a later sleep, which then does not begin, or is
// woken.
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

// The calling thread is about to create one of the program's threads, by `create`. May start the
// background thread, but not where `create` is null. Keeps errno.
void OnThreadStarting(CreateThreadFunction create);
// It could not. True when the background thread was stopped for that, so that another try may
// succeed. Keeps errno.
bool OnThreadNotStarted();
// The calling thread ends, and its cache is no longer registered. Keeps errno.
void OnThreadEnds();

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
