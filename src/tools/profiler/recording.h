// SPDX-License-Identifier: BSD-3-Clause
// Records of all objects without files, for the leak checker. Either these records or the heap
// profiler's are kept, never both. Objects from before the start are not in the records.
//
// Thread safety: any thread that holds no lock; FindRecord also a thread that holds the heap. Cost:
// see tools/profiler/record_session.h; FindRecord is a probe of a hash table.
#pragma once

#include <cstdint>

#include "tools/profile/object_table.h"
#include "tools/profiler/record_session.h"

namespace tcmalloc {

// Starts recording, unless it runs. False when there is no memory, or the heap profiler runs. While
// it records, StartHeapProfiler says so on stderr and starts nothing.
bool StartRecording(RecordMarker marker);
void StopRecording();
bool RecordingRuns();

// Sets `*record` to what is known of an object in use. False when nothing is known. A thread that
// holds the heap (heap/heap_hold.h) passes through the locks that this takes.
bool FindRecord(uintptr_t object, ObjectTable::Record* record);

}  // namespace tcmalloc
