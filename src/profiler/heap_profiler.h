// SPDX-License-Identifier: BSD-3-Clause
// The heap profiler: while it runs, every allocation and every free of the process is recorded with
// its call site, and profiles are written to files PREFIX.NNNN.heap.
//
// It may be started and stopped at any time, any number of times. Objects from before its start are
// not in the profiles, and their frees change nothing.
//
// How. It is a pair of hooks (runtime/hooks.h) on two tables (profile/site_table.h,
// profile/object_table.h). The tables are made at the first start and stay: a hook that was removed
// may still be running somewhere, and finds them as they were. What it then records late counts in
// the session that is on by then, or is cleared by the next start.
//
// Files are written by the thread whose hook finds that an interval has passed, without locks, one
// at a time: a thread that finds another one at it goes on. Nothing here calls malloc: memory comes
// from the heap's arena and from the system.
//
// Locks: those of the object table (LockRank::kProfile). Starting and stopping have none, as they
// make system calls: who finds another thread at it waits for that. Around fork the table's locks
// are held, so the child's tables are complete; its profiler goes on, with the child's number in
// the names of its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "profile/byte_sink.h"
#include "profile/object_table.h"
#include "runtime/settings.h"

namespace tcmalloc {

// Starts it, unless it runs. Files are named after `prefix`, of which the first kMaxPrefixBytes
// count; their numbers go on from those before. False when there is no memory for it.
inline constexpr size_t kMaxPrefixBytes = 1023;
bool StartHeapProfiler(std::string_view prefix);
// Stops it, if it runs, and forgets what it has recorded. Writes nothing.
void StopHeapProfiler();
bool HeapProfilerRuns();
// Writes a file, with a line on stderr that says why; nothing when the profiler does not run.
void DumpHeapProfile(std::string_view reason);
// Hands the text of a profile to the function, piece by piece; nothing when the profiler does not
// run. False when it could not be written or there is no memory for it.
[[nodiscard]] bool WriteHeapProfile(ByteSink::Function function, void* context);

// The same records without files, for the leak checker: it either runs as that or as the profiler.
// While it records, StartHeapProfiler says so on stderr and starts nothing. Objects from before are
// not in the records.
//   `marker` is called for every object, by the thread that allocates, and says what is written
//   beside it, at most ObjectTable::kMaxMark; like a hook, but it must not allocate.
// False when there is no memory for it, or the profiler runs.
using RecordMarker = uint32_t (*)();
bool StartRecording(RecordMarker marker);
void StopRecording();
bool RecordingRuns();
// What is known of an object in use. False when nothing is. Whoever holds the heap may ask, too
// (runtime/heap_hold.h): the locks that this takes are passed through then.
bool FindRecord(uintptr_t object, ObjectTable::Record* record);

// What the environment asks for.
void StartHeapProfilerBySettings(const Settings& settings);
// The process ends.
void DumpLastHeapProfile();

}  // namespace tcmalloc
