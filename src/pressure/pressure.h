// SPDX-License-Identifier: BSD-3-Clause
// The process's memory pressure: what TCMALLOC_PRESSURE asks for. The minimal library has
// no_pressure.cc for all of it.
//
// A thread of the library's listens, which is started when the library is loaded; or the program
// does, in a loop of its own. A child of fork has neither its parent's thread nor its descriptors,
// which are closed in it: where there was a thread, one is started again in a child that has lived
// for Tuning::Pressure::revive_after_ms and allocates then, which none does that is about to exec.
//
// Who works. One thread at a time is "at work": it opens what is listened to, handles events, calls
// the program's listeners. The library's thread is at work from its start to the end of the
// process; the program's threads are for the length of a call, and when another one is,
// HandlePressure has nothing to do, and PressureFd waits. So the state has one owner, who takes it
// with one compare-and-swap; that is all the protocol there is between threads.
//
// Fork. The child has one thread, the one that forked. It finds the state in one of three ways.
// Nobody was at work, or it was a thread that the child lacks: then the work is nobody's, what that
// thread had open is closed, and its half-done changes are in memory that Begin constructs anew.
// Or the forking thread is at work itself, in a listener of the program's: the work stays its own,
// with the descriptors gone. When the listener returns, if it ever does, its loop finds them gone
// and begins anew (the library's thread, which is the child's only one now), or has nothing to
// return to its caller (the program's loop, which asks for a new descriptor). Nothing is
// constructed in the place of what is in use further up the stack, since that is at work.
// A child of a child is the same again; that its process is to have a thread is remembered apart
// from whether it has one.
#pragma once

#include <cstdint>

namespace tcmalloc {

struct Heap;
struct PressureListener;

// Begins what the environment asks for. Once the C library is ready; no lock may be held.
void OnPressureLoad();
// In a child that has lived for so long: starts the thread again, where nobody listens yet. No lock
// may be held.
void ReviveAfterFork();

// For the program's own loop: a descriptor that is readable when HandlePressure is to be called;
// the same each time, unless the program has closed it. An error number below zero: EBUSY when the
// library's thread listens already, and from a listener in a child that it has forked; EMFILE and
// the like, ENOTSUP in the minimal library. What is listened to is what the environment says,
// everything where it says nothing.
int PressureFd(Heap& heap);
// Finds out what has happened and does what is due, without waiting. Returns the level, 0 for none.
int HandlePressure(Heap& heap);

void AddPressureListener(PressureListener* listener);
void RemovePressureListener(PressureListener* listener);

}  // namespace tcmalloc
