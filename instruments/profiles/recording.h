// SPDX-License-Identifier: BSD-3-Clause
// Recording of all objects, without files, for the leak checker. Either this recording or the heap
// profiler runs, never both. Objects from before the start are not in the records.
//
// Thread safety: any thread that holds no lock; a thread that holds the heap may also call
// FindRecord. Cost: see instruments/profiles/record_session.h; FindRecord is a probe of a hash
// table.
#pragma once

#include <cstdint>

#include "instruments/profiles/object_table.h"
#include "instruments/profiles/record_session.h"

namespace tcmalloc {

// Starts recording, unless it runs. False when there is no memory, or the heap profiler runs. While
// a recording runs, StartHeapProfiler reports that on stderr and does not start.
bool StartRecording(RecordMarker marker);
void StopRecording();
bool RecordingRuns();

// Sets `*record` to the record of an object in use. False when there is none. A thread that holds
// the heap (process/fork.h) passes through the locks that this takes.
bool FindRecord(uintptr_t object, ObjectTable::Record* record);

}  // namespace tcmalloc
