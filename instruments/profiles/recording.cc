// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/recording.h"

#include "instruments/profiles/heap_dumps.h"
#include "process/heap.h"

namespace tcmalloc {

bool StartRecording(RecordMarker marker) {
  ExistingHeap();
  if (RecordingRuns()) return true;
  if (!BeginRecordChange(RecordState::kStopped)) return RecordingRuns();
  if (!PrepareRecordTables()) {
    EndRecordChange(RecordState::kStopped);
    return false;
  }
  // No shard reports traffic, and no file is ever due.
  ClearRecords(HeapDumpSchedule::kNever, marker);
  heap_dumps.BeginSessionWithoutFiles();
  return StartRecords(RecordState::kRecording);
}

void StopRecording() {
  if (BeginRecordChange(RecordState::kRecording)) StopRecords();
}

bool RecordingRuns() { return CurrentRecordState() == RecordState::kRecording; }

bool FindRecord(uintptr_t object, ObjectTable::Record* record) {
  RecordTables* const tables = CurrentRecordTables();
  return tables != nullptr && RecordingRuns() && tables->objects.Find(object, record);
}

}  // namespace tcmalloc
