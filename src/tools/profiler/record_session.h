// SPDX-License-Identifier: BSD-3-Clause
// The recording of all allocations and frees: the tables of call sites and of objects, the hooks
// that fill them, and the sessions, one at a time: for the heap profiler (with files,
// tools/profiler/heap_profiler.h) or for the leak checker (without, tools/profiler/recording.h).
//
// The tables are made by the first session and stay: a hook that was removed may still run in some
// thread and needs them. What it records late counts in the session that runs by then, or is
// cleared by the next start.
//
// Locks: those of the object table (LockRank::kProfile), held around fork, so that the child's
// tables are consistent. A session changes its state without a lock, because it makes system calls:
// a thread that finds another one changing it waits. Thread safety: any thread that holds no lock.
// Cost: a stack trace and two table operations per allocation, one per free.
#pragma once

#include <cstdint>

#include "heap/heap.h"
#include "tools/profile/object_table.h"
#include "tools/profile/site_table.h"

namespace tcmalloc {

struct RecordTables {
  explicit RecordTables(MetadataArena& arena) : sites(arena), objects(arena) {}
  SiteTable sites;
  ObjectTable objects;
};

enum class RecordState : uint32_t {
  kStopped,
  kChanging,   // the thread that made the change alone may change the state
  kProfiling,  // a session of the heap profiler
  kRecording,  // a session of the leak checker
};

RecordState CurrentRecordState();
// Null before the first session.
RecordTables* CurrentRecordTables();

// Makes the state kChanging and gives it to the caller. False when the state is not `from`; waits
// while another thread changes it.
bool BeginRecordChange(RecordState from);
// Ends the change. Requires: the state is the caller's.
void EndRecordChange(RecordState to);

// Makes the tables, if there are none. Requires: the state is the caller's. False when there is no
// memory.
bool PrepareRecordTables();
// Called for every object, by the thread that allocates it, like a hook, but it must not allocate.
// Returns what is recorded with the object, at most ObjectTable::kMaxMark.
using RecordMarker = uint32_t (*)();
// Clears the tables for a new session. `traffic_threshold`: see ObjectTable. `marker`: null for no
// marks. Requires: the state is the caller's; the tables exist.
void ClearRecords(uint64_t traffic_threshold, RecordMarker marker);
// Adds the hooks and ends the change. False when there is no room for hooks; the state is kStopped
// then. Requires: the state is the caller's; the tables exist.
bool StartRecords(RecordState next);
// Removes the hooks, clears the objects and ends the change. Requires: the state is the caller's.
void StopRecords();

}  // namespace tcmalloc
