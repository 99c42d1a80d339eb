// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/record_session.h"

#include <atomic>
#include <new>

#include "base/compiler.h"
#include "instruments/profiles/heap_dumps.h"
#include "instruments/profiles/object_table.h"
#include "os/clock.h"
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

}  // namespace tcmalloc
