// SPDX-License-Identifier: BSD-3-Clause
// The recording of all allocations and frees, each with its call site: the tables of call sites and
// of objects, the hooks that fill them, and the sessions, one at a time. A session is for the heap
// profiler, which writes profiles to files PREFIX.NNNN.heap, or for the leak checker
// (StartRecording).
//
// It can be started and stopped at any time, any number of times. Objects from before its start are
// not in the records, and their frees change nothing. The tables are made by the first session and
// stay: a hook that was removed may still run in some thread and needs them. Objects that it
// records late count in the session that runs by then, or are cleared by the next start.
//
// instruments/profiles/heap_dumps.h decides when a file is due, and writes it. The thread whose
// hook finds that a file is due writes it, without locks; other threads continue. Nothing here
// calls malloc: memory comes from the heap's arena and from the OS. In a forked child the profiler
// continues, and the names of its files have the child's process id.
//
// Locks: those of the object table (LockRank::kProfile), held around fork, so that the child's
// tables are consistent. A session changes its state without a lock, because it makes system calls;
// a thread that finds another thread changing it waits. Thread safety: any thread that holds no
// lock. Cost: a stack trace and two table operations per allocation, one per free.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "config/settings.h"
#include "instruments/profiles/object_table.h"
#include "instruments/profiles/profile.h"
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

// Starts the profiler, unless it runs. Files are named after `prefix`, which is cut off after
// kMaxPrefixBytes; their numbers continue those of the last session. False when there is no memory.
bool StartHeapProfiler(std::string_view prefix);
// Stops the profiler, if it runs, and drops its records. Writes nothing.
void StopHeapProfiler();
bool HeapProfilerRuns();
// Writes a file, and a line on stderr that names the reason. Does nothing unless the profiler runs.
void DumpHeapProfile(std::string_view reason);
// Passes the text of a profile to the function, piece by piece; nothing unless the profiler runs.
// False when the function failed or there is no memory.
[[nodiscard]] bool WriteHeapProfile(ByteSink::Function function, void* context);

// Starts the profiler if the environment requests it.
void StartHeapProfilerBySettings(const Settings& settings);
// Writes the last file. Called when the process ends.
void DumpLastHeapProfile();

}  // namespace tcmalloc
