// SPDX-License-Identifier: BSD-3-Clause
// The process's memory pressure: what TCMALLOC_PRESSURE asks for. The minimal library has
// no_pressure.cc for all of it.
//
// A thread of the library's listens, which is started when the library is loaded; or the program
// does, in a loop of its own. A child of fork has neither its parent's thread nor its descriptors,
// which are closed in it: where there was a thread, one is started again in a child that has lived
// for kReviveAfterMs and allocates then, which none does that is about to exec.
#pragma once

#include <cstdint>

namespace tcmalloc {

struct Heap;
struct PressureListener;

inline constexpr int64_t kReviveAfterMs = 1000;

// Begins what the environment asks for. Once the C library is ready; no lock may be held.
void OnPressureLoad();
// In a child that has lived for so long: starts the thread again. No lock may be held.
void ReviveAfterFork();

// For the program's own loop: a descriptor that is readable when HandlePressure is to be called;
// the same each time. An error number below zero: EBUSY when the library's thread listens already,
// EMFILE and the like, ENOTSUP in the minimal library. What is listened to is what the environment
// says, everything where it says nothing.
int PressureFd(Heap& heap);
// Finds out what has happened and does what is due, without waiting. Returns the level, 0 for none.
int HandlePressure(Heap& heap);

void AddPressureListener(PressureListener* listener);
void RemovePressureListener(PressureListener* listener);

}  // namespace tcmalloc
