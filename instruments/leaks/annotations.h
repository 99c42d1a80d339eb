// SPDX-License-Identifier: BSD-3-Clause
// The program's annotations for the leak checker: objects that it must not report, and threads
// whose allocations do not count. instruments/annotations/program_annotations.h has the memory that
// the program registers as roots.
//
// A record has a mark (kIgnoredMark). It contains the period in which the object was allocated, so
// that a check of a part of the program's life ignores older objects, and whether the allocating
// thread was disabled. Period numbers run out after eight million checks. From then on all objects
// belong to the last period, and a check may report leaks older than its part of the program's
// life.
//
// Synchronization: LockRank::kLeaks for the addresses, held around fork. The list of disabled
// threads only grows and is read without a lock; in a forked child, no thread but the forking one
// stays disabled. Cost: an annotation takes a lock and memory of the heap's arena (32 bytes). A
// recorded allocation reads two variables, and walks the list while any thread is disabled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/annotations/program_annotations.h"

namespace tcmalloc {

// Starts recording with these marks (instruments/profiles/heap_profiler.h), unless it runs
// already. False when that is impossible.
bool BeginRecording();
// Begins a period and returns it: objects allocated from now on are of this period or a later one.
uint32_t BeginPeriod();
// Whether recording has run without a break since that period began.
bool RecordedSince(uint32_t period);

// The calling thread's allocations do not count until it has called Enable as often as Disable.
// Only recorded allocations can be left out. If there is no memory for that, they count.
void DisableForThisThread();
void EnableForThisThread();
bool AnyThreadWasDisabled();

// The object that contains `address`, and everything reachable from it, is not leaked until
// UnignoreAddress with the same address. False when there is no memory, or when the address was not
// ignored.
bool IgnoreAddress(const void* address);
bool UnignoreAddress(const void* address);

// Calls visit(context, address) for each ignored address. A thread that holds the heap
// (process/fork.h) may call this too: it passes through the lock.
using AddressVisitor = void (*)(void* context, uintptr_t address);
void ForEachIgnored(AddressVisitor visit, void* context);

// Registers the fork handlers of the lock at the first call. Called before the first check.
void PrepareAnnotations();

}  // namespace tcmalloc
