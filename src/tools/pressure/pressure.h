// SPDX-License-Identifier: BSD-3-Clause
// Memory pressure in this process, as TCMALLOC_PRESSURE asks for it. The minimal library has
// tools/minimal/pressure.cc instead.
//
// Either a thread of the library listens, started when the library is loaded, or the program does,
// in its own event loop. A forked child has neither its parent's thread nor its descriptors, which
// are closed in it. Where the parent had the thread, the child starts one at its first slow
// allocation after Tuning::Pressure::revive_after_ms; a child that soon calls exec never does.
//
// Which thread works. One thread at a time is "at work": it opens sources, handles events, calls
// the program's listeners. The library's thread is at work from its start to the end of the
// process; a program's thread is for the length of a call. If another thread is at work,
// HandlePressure does nothing, and PressureFd waits. So the state has one owner, which takes it
// with one compare-and-swap; threads need no other protocol.
//
// Fork. The child has one thread, the one that forked. There are two cases. (1) No thread was at
// work, or one that the child lacks: the child closes its descriptors and marks the state free;
// Begin constructs anew over its unfinished changes. (2) The forking thread is at work itself, in a
// listener of the program: it stays at work, without the descriptors. If the listener returns, the
// loop of the library's thread, now the child's only one, finds them closed and begins anew; a call
// from the program's event loop returns 0, and the program asks for a new descriptor. Nothing is
// constructed over state that a function up the stack uses, because that thread is at work.
// wants_thread, not has_thread, decides whether a child and its children get a thread.
#pragma once

#include <cstdint>

namespace tcmalloc {

struct Heap;
struct PressureListener;

// Starts what the environment asks for. Call it when the C library is ready, with no lock held.
void OnPressureLoad();
// Runs in a child that has lived for revive_after_ms: starts the thread again, unless the child
// listens already. No lock may be held.
void ReviveAfterFork();

// For the program's event loop: a descriptor that is readable when HandlePressure has work; the
// same in each call, unless the program has closed it. Negative on failure: -EBUSY if the library's
// thread listens, or from a listener in a child that it forked; -EMFILE; -ENOTSUP in the
// minimal library. It listens to the sources of the setting, or to all if the setting names none.
int PressureFd(Heap& heap);
// Reads what has happened and acts on it, without waiting. Returns the level, 0 for none.
int HandlePressure(Heap& heap);

void AddPressureListener(PressureListener* listener);
void RemovePressureListener(PressureListener* listener);

}  // namespace tcmalloc
