// SPDX-License-Identifier: BSD-3-Clause
// What the program tells the leak checker: objects that are not to be reported, and threads whose
// allocations do not count; and what each record of an allocation is marked with
// (profiler/recording.h). Memory that holds pointers: leak/registered_roots.h.
//
// A mark says in which period the object was allocated, so that a checker that looks at a part of
// the program's life tells what came since it began; and whether the allocating thread wanted it
// not to count. Periods are numbered; when the numbers are used up, which takes eight million
// checkers, all further objects are of the last period, and a checker may report what is lost from
// shortly before it began.
//
// Synchronization: LockRank::kLeaks for the addresses; the threads that are disabled are a
// list that only grows and is read without a lock. Around fork the lock is held; in the child only
// the thread that forked is what it was. Cost: an annotation takes a lock and memory of the heap's
// arena (32 bytes); a recorded allocation looks at two variables, and walks the list of threads
// while any is disabled.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// What records are marked with: the period, and kIgnoredMark.
inline constexpr uint32_t kIgnoredMark = uint32_t{1} << 23;
inline constexpr uint32_t kLastPeriod = kIgnoredMark - 1;
constexpr uint32_t PeriodOf(uint32_t mark) { return mark & kLastPeriod; }

// Starts recording, where it does not run (profiler/recording.h), with such marks; false where
// that is not possible.
bool BeginRecording();
// What is allocated from now on is of the period that this returns, or of a later one.
uint32_t BeginPeriod();
// Recording runs, and has run since that period began.
bool RecordedSince(uint32_t period);

// What the calling thread allocates does not count until it says otherwise, as often as it said
// this. Only what is recorded is known to be of that kind. Without memory it counts.
void DisableForThisThread();
void EnableForThisThread();
bool AnyThreadWasDisabled();

// The object at or around `address`, and what it leads to, is not lost; until Unignore with the
// same address. False where there is no memory, and where it was not ignored.
bool IgnoreAddress(const void* address);
bool UnignoreAddress(const void* address);

// Calls visit(context, address) for the ignored ones. Whoever holds the heap may call this, too
// (runtime/heap_hold.h): its lock is passed through then.
using AddressVisitor = void (*)(void* context, uintptr_t address);
void ForEachIgnored(AddressVisitor visit, void* context);

// Has the lock held around fork, once; before the first check.
void PrepareAnnotations();

}  // namespace tcmalloc
