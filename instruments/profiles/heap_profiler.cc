// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/heap_profiler.h"

#include "instruments/profiles/heap_dumps.h"
#include "instruments/profiles/process.h"
#include "instruments/profiles/profile_formats.h"
#include "instruments/profiles/record_session.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/log.h"
#include "os/signals.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

HeapDumpIntervals IntervalsOf(const Settings& settings) {
  return {.allocated_bytes = settings.heap_profile_allocation_interval,
          .freed_bytes = settings.heap_profile_deallocation_interval,
          .in_use_bytes = settings.heap_profile_inuse_interval,
          .milliseconds = settings.heap_profile_time_interval_seconds * 1000};
}

bool Start(std::string_view prefix, bool with_pid) {
  ExistingHeap();
  if (RecordingRuns()) {
    WriteToStderr(
        "tcmalloc: the heap profiler does not start: the leak checker records allocations\n");
    return false;
  }
  if (!BeginRecordChange(RecordState::kStopped)) return true;
  if (!PrepareRecordTables() || !heap_dumps.Begin()) {
    EndRecordChange(RecordState::kStopped);
    return false;
  }
  const HeapDumpIntervals intervals = IntervalsOf(GlobalHeap().settings);
  ClearRecords(intervals.TrafficThreshold(ObjectTable::kNumShards), nullptr);
  heap_dumps.BeginSession(prefix, with_pid, intervals);
  heap_dumps.End();
  return StartRecords(RecordState::kProfiling);
}

void OnSignal(int) { heap_dumps.RequestDump(); }

}  // namespace

bool StartHeapProfiler(std::string_view prefix) { return Start(prefix, false); }

void StopHeapProfiler() {
  if (BeginRecordChange(RecordState::kProfiling)) StopRecords();
}

bool HeapProfilerRuns() { return CurrentRecordState() == RecordState::kProfiling; }

void DumpHeapProfile(std::string_view reason) {
  if (!HeapProfilerRuns() || !heap_dumps.Begin()) return;
  heap_dumps.Write(CurrentRecordTables()->sites, reason);
  heap_dumps.End();
}

bool WriteHeapProfile(ByteSink::Function function, void* context) {
  if (!HeapProfilerRuns()) return true;
  const ErrnoKeeper keeper;
  const CurrentProfile current(CurrentRecordTables()->sites);
  return current.complete() &&
         WriteProfile(current.profile(), ProfileFormat::kLegacyText, function, context);
}

void StartHeapProfilerBySettings(const Settings& settings) {
  if (*settings.heap_profile == '\0') return;
  char buffer[3 * kSettingTextBytes];
  TextWriter writer(buffer, sizeof(buffer));
  WriteHeapProfilePrefix(settings, &writer);
  const int signal = settings.heap_profile_signal;
  if (signal != 0 && !HandleSignal(signal, &OnSignal)) {
    WriteToStderr(
        "tcmalloc: HEAPPROFILESIGNAL is ignored: there is no such signal, or it has a "
        "handler\n");
  }
  // If the parent process is profiled with the same setting, its files have the same names.
  const ErrnoKeeper keeper;
  if (RecordingRuns()) {
    WriteToStderr(
        "tcmalloc: HEAPPROFILE is ignored: HEAPCHECK is set, and cannot be used with it\n");
    return;
  }
  const bool started_by_profiled = ParentWasStartedWith("HEAPPROFILE", settings.heap_profile);
  if (!Start(writer.text(), HeapProfileNamesHavePid(settings) || started_by_profiled)) {
    WriteToStderr("tcmalloc: HEAPPROFILE is ignored: there is no memory to record allocations\n");
    return;
  }
  if (heap_dumps.Begin()) {
    heap_dumps.CheckFirstFile();
    if (settings.heap_profile_cleanup) heap_dumps.RemoveOldFiles();
    heap_dumps.End();
  }
}

void DumpLastHeapProfile() { DumpHeapProfile("exit"); }

}  // namespace tcmalloc
