// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/heap_profiler.h"

#include <atomic>
#include <new>

#include "base/compiler.h"
#include "instruments/profiles/heap_dumps.h"
#include "instruments/profiles/object_table.h"
#include "instruments/profiles/profile.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/log.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/stack_trace.h"
#include "process/fork.h"
#include "process/heap.h"
#include "process/hooks.h"

namespace tcmalloc {

constinit RecordSession record_session;

namespace {

// Written by ClearRecords, before the hooks are added (release); read by hooks (acquire).
constinit std::atomic<RecordMarker> record_marker{nullptr};

// ---- Hooks.

TC_SLOW_PATH void WriteFileIfDue(RecordTables& tables) {
  if (!heap_dumps.TryBegin()) return;
  heap_dumps.WriteIfDue(tables.sites, CurrentRecordState() == RecordState::kProfiling);
  heap_dumps.End();
}

void AfterRecording(RecordTables& tables, const ObjectTable::Traffic& traffic) {
  if (heap_dumps.IsDueAfter(traffic)) WriteFileIfDue(tables);
}

// In a statically linked program these frames are left out: OnNew, CallNewHooks and the slow path
// that called it. The entry point stays in the trace, since one frame too many is better than one
// too few.
constexpr size_t kStaticSkip = 3;

void OnNew(const void* object, size_t size) {
  RecordTables& tables = *record_session.tables.load(std::memory_order_acquire);
  uintptr_t frames[kMaxSiteDepth];
  const size_t depth =
      GetCallerStackTrace(frames, kMaxSiteDepth, 0, AllocatorFrames::kLeading, kStaticSkip);
  Site* const site = tables.sites.SiteOf(frames, depth);
  ObjectTable::Traffic traffic;
  // If there is no memory, the object is not recorded, like an object from before the start.
  if (site != nullptr) {
    const RecordMarker marker = record_marker.load(std::memory_order_acquire);
    tables.objects.Insert(reinterpret_cast<uintptr_t>(object), site, size, &traffic,
                          marker == nullptr ? 0 : marker());
  }
  AfterRecording(tables, traffic);
}

void OnDelete(const void* object) {
  RecordTables& tables = *record_session.tables.load(std::memory_order_acquire);
  ObjectTable::Traffic traffic;
  tables.objects.Remove(reinterpret_cast<uintptr_t>(object), &traffic);
  AfterRecording(tables, traffic);
}

// ---- Fork.

template <typename F>
void ForEachTableLock(F f) {
  record_session.tables.load(std::memory_order_acquire)->objects.ForEachLock(f);
}

void PrepareFork() {
  ForEachTableLock([](SpinLock& lock) { lock.HoldForFork(); });
}

void AfterForkInParent() {
  ForEachTableLock([](SpinLock& lock) { lock.ReleaseAfterForkInParent(); });
}

// Threads that were changing the tables do not exist in the child.
void AfterForkInChild() {
  ForEachTableLock([](SpinLock& lock) { lock.ResetAfterForkInChild(); });
  heap_dumps.ResetAfterForkInChild();
  if (record_session.state.load(std::memory_order_relaxed) == RecordState::kChanging) {
    RemoveNewHook(&OnNew);
    RemoveDeleteHook(&OnDelete);
    record_session.state.store(RecordState::kStopped, std::memory_order_relaxed);
  }
}

constexpr ForkHandlers kRecordForkHandlers = {&PrepareFork, &AfterForkInParent, &AfterForkInChild};

}  // namespace

// ---- Sessions.

RecordState CurrentRecordState() { return record_session.state.load(std::memory_order_acquire); }

RecordTables* CurrentRecordTables() {
  return record_session.tables.load(std::memory_order_acquire);
}

bool BeginRecordChange(RecordState from) {
  for (;;) {
    RecordState expected = from;
    if (record_session.state.compare_exchange_strong(expected, RecordState::kChanging,
                                                     std::memory_order_acquire,
                                                     std::memory_order_relaxed)) {
      return true;
    }
    if (expected != RecordState::kChanging) return false;
    WaitMillisecond();
  }
}

void EndRecordChange(RecordState to) { record_session.state.store(to, std::memory_order_release); }

bool PrepareRecordTables() {
  if (record_session.tables.load(std::memory_order_relaxed) != nullptr) return true;
  VirtualMemory& vm = GlobalHeap().virtual_memory;
  const size_t page = vm.hardware_page_size();
  const Mapping mapping = vm.Map((sizeof(RecordTables) + page - 1) / page * page, page);
  if (mapping.start == nullptr) return false;
  RecordTables* const tables = new (mapping.start) RecordTables(GlobalHeap().arena);
  if (!tables->sites.Prepare()) {
    static_cast<void>(vm.Unmap(mapping.start, mapping.bytes));
    return false;
  }
  record_session.tables.store(tables, std::memory_order_release);
  InstallForkHandlers();
  return AddForkHandlers(&kRecordForkHandlers);
}

void ClearRecords(uint64_t traffic_threshold, RecordMarker marker) {
  RecordTables& tables = *record_session.tables.load(std::memory_order_relaxed);
  tables.objects.Clear();
  tables.sites.BeginSession();
  tables.objects.SetTrafficThreshold(traffic_threshold);
  record_marker.store(marker, std::memory_order_release);
}

bool StartRecords(RecordState next) {
  // The delete hook is added first and removed last, so that no free of a recorded object is
  // missed.
  const bool added = AddDeleteHook(&OnDelete) && AddNewHook(&OnNew);
  if (!added) RemoveDeleteHook(&OnDelete);
  EndRecordChange(added ? next : RecordState::kStopped);
  return added;
}

void StopRecords() {
  RemoveNewHook(&OnNew);
  RemoveDeleteHook(&OnDelete);
  record_session.tables.load(std::memory_order_relaxed)->objects.Clear();
  EndRecordChange(RecordState::kStopped);
}

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
