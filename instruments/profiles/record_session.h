// SPDX-License-Identifier: BSD-3-Clause
// The recording of all allocations and frees: the tables of call sites and of objects, the hooks
// that fill them, and the sessions, one at a time: for the heap profiler (with files,
// instruments/profiles/heap_profiler.h) or for the leak checker (without, StartRecording).
//
// The tables are made by the first session and stay: a hook that was removed may still run in some
// thread and needs them. Objects that it records late count in the session that runs by then, or
// are cleared by the next start.
//
// Locks: those of the object table (LockRank::kProfile), held around fork, so that the child's
// tables are consistent. A session changes its state without a lock, because it makes system calls;
// a thread that finds another thread changing it waits. Thread safety: any thread that holds no
// lock. Cost: a stack trace and two table operations per allocation, one per free.
#pragma once

#include <atomic>
#include <cstdint>

#include "instruments/profiles/object_table.h"
#include "process/heap.h"

namespace tcmalloc {

struct RecordTables {
  explicit RecordTables(MetadataArena& arena) : sites(arena), objects(arena) {}
  SiteTable sites;
  ObjectTable objects;
};

enum class RecordState : uint32_t {
  kStopped,
  kChanging,   // only the thread that stored this value may change the state
  kProfiling,  // a session of the heap profiler
  kRecording,  // a session of the leak checker
};

struct RecordSession {
  // The first session makes the tables (release), which then stay; hooks and readers use them
  // (acquire).
  std::atomic<RecordTables*> tables{nullptr};
  // A thread that makes it kChanging (acquire) has exclusive use until it stores the next state
  // (release).
  std::atomic<RecordState> state{RecordState::kStopped};
};
// The session of the process. Only the introspection root uses it directly; other code uses the
// functions.
extern RecordSession record_session;

RecordState CurrentRecordState();
// Null before the first session.
RecordTables* CurrentRecordTables();

// Makes the state kChanging, so that the caller owns it. False when the state is not `from`; waits
// while another thread changes it.
bool BeginRecordChange(RecordState from);
// Ends the change. Requires: the caller owns the state.
void EndRecordChange(RecordState to);

// Makes the tables, if there are none. Requires: the caller owns the state. False when there is no
// memory.
bool PrepareRecordTables();
// Called for every object, by the thread that allocates it, like a hook, but it must not allocate.
// Returns the mark to record with the object, at most ObjectTable::kMaxMark.
using RecordMarker = uint32_t (*)();
// Clears the tables for a new session. For `traffic_threshold` see ObjectTable. `marker` is null
// for no marks. Requires: the caller owns the state; the tables exist.
void ClearRecords(uint64_t traffic_threshold, RecordMarker marker);
// Adds the hooks and ends the change. False when there is no room for hooks; then the state is
// kStopped. Requires: the caller owns the state; the tables exist.
bool StartRecords(RecordState next);
// Removes the hooks, clears the objects and ends the change. Requires: the caller owns the state.
void StopRecords();

// Recording of all objects, without files, for the leak checker. Either this recording or the heap
// profiler runs, never both. Objects from before the start are not in the records.
//
// Thread safety: any thread that holds no lock; a thread that holds the heap may also call
// FindRecord, which is a probe of a hash table.

// Starts recording, unless it runs. False when there is no memory, or the heap profiler runs. While
// a recording runs, StartHeapProfiler reports that on stderr and does not start.
bool StartRecording(RecordMarker marker);
void StopRecording();
bool RecordingRuns();

// Sets `*record` to the record of an object in use; false if it has no record. A thread that holds
// the heap (process/fork.h) passes through the locks that this takes.
bool FindRecord(uintptr_t object, ObjectTable::Record* record);

}  // namespace tcmalloc
