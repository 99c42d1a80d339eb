// SPDX-License-Identifier: BSD-3-Clause
// The stacks of the calls that allocate and free, and their text in reports.
// instruments/debug/stacks.cc and, for the minimal library, instruments/debug/no_stacks.cc define
// RecordCaller and the functions that write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {

// The stacks of the calls that allocate and free. Each is stored once, so a program with millions
// of objects has some thousands of stacks.
//
// The memory comes from the metadata arena and is never freed. Thread safety: any; a thread adds a
// record to its bucket by a compare-and-swap, so two threads may store the same stack twice, which
// costs memory only. No lock is held across a fork. Cost: a stack trace, and the walk over a
// bucket.

// The stack of the calling thread, without the allocator's frames. Null if there is no memory, or
// the stack is unknown. `caller` is the return address of the entry point; the minimal library
// records nothing else.
const CallStack* RecordCaller(uintptr_t caller);

// The record of this stack; null without memory.
const CallStack* RecordStack(const uintptr_t* frames, size_t depth);

// True if `stack` is a record of the table. A pointer from a damaged header may have any value.
// Cost: a walk over all records.
bool IsRecorded(const CallStack* stack);

// Writes one line per frame to stderr. With `names`, a line has the name of the function if the
// library knows it; that takes memory from the OS.
void WriteStack(const uintptr_t* frames, size_t depth, bool names);

// Writes the stack of the caller, without the allocator's frames, after a line of heading; nothing
// if it is unknown.
void WriteCurrentStack(const char* heading, bool names);

}  // namespace tcmalloc
