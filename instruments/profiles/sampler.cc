// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/sampler.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "base/sample_gap.h"
#include "instruments/profiles/probes.h"
#include "instruments/profiles/profile_formats.h"
#include "os/clock.h"
#include "os/spinlock.h"
#include "os/stack_trace.h"
#include "process/current_thread.h"
#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {

constinit std::atomic<SampleTable*> existing_sample_table{nullptr};

namespace {

// Built once, when the library is loaded or at the first use before that.
alignas(SampleTable) constinit char sample_table_storage[sizeof(SampleTable)] = {};
constinit SpinLock table_lock{LockRank::kInit};

template <typename F>
void WithSampleLock(F f) {
  SampleTable* const table = existing_sample_table.load(std::memory_order_acquire);
  if (table != nullptr) f(table->lock());
}

constexpr ForkHandlers kSampleForkHandlers = {
    [] { WithSampleLock([](SpinLock& lock) { lock.HoldForFork(); }); },
    [] { WithSampleLock([](SpinLock& lock) { lock.ReleaseAfterForkInParent(); }); },
    [] { WithSampleLock([](SpinLock& lock) { lock.ResetAfterForkInChild(); }); },
};

// In a statically linked program these frames are left out: SampleAllocated and the slow path that
// called it.
constexpr size_t kSampleStaticSkip = 2;

SampleTable& Table(Heap& heap) {
  SampleTable* table = existing_sample_table.load(std::memory_order_acquire);
  if (table != nullptr) return *table;
  {
    const SpinLockHolder holder(table_lock);
    table = existing_sample_table.load(std::memory_order_relaxed);
    if (table != nullptr) return *table;
    table = new (sample_table_storage) SampleTable(heap.arena);
    // The handlers are added first; they do nothing while there is no table.
    AddForkHandlers(&kSampleForkHandlers);
    existing_sample_table.store(table, std::memory_order_release);
  }
  return *table;
}

}  // namespace

void SampleAllocated(Heap& heap, void* object, size_t requested, size_t allocated, void** place) {
  const size_t period = heap.sampling.period();
  if (period == 0) return;  // switched off just now
  uintptr_t frames[kMaxStackDepth];
  const size_t depth =
      GetCallerStackTrace(frames, kMaxStackDepth, 0, AllocatorFrames::kLeading, kSampleStaticSkip);
  SampleTable& table = Table(heap);
  Sample* const sample = table.New(depth);
  if (sample == nullptr) return;
  std::copy_n(frames, depth, sample->stack);
  sample->object = object;
  sample->requested_bytes = requested;
  sample->allocated_bytes = allocated;
  sample->period = period;
  sample->weight = SampleWeight(requested, period);
  *place = sample;
  table.Add(sample);
  ProbeAllocation(object, requested,
                  static_cast<size_t>(RoundedEstimate(sample->weighted_bytes())));
}

void SampleFreed(void* sample) {
  ProbeFree(static_cast<const Sample*>(sample)->object);
  existing_sample_table.load(std::memory_order_acquire)->Remove(static_cast<Sample*>(sample));
}

void PrepareSampler(Heap& heap) { Table(heap); }

bool SetSamplePeriod(Heap& heap, size_t period) {
  Table(heap);
  heap.sampling.SetPeriod(period);
  heap.registry.AlarmAll();
  return true;
}

SampleTable::Totals GetSampleTotals() {
  SampleTable* const table = existing_sample_table.load(std::memory_order_acquire);
  return table == nullptr ? SampleTable::Totals() : table->GetTotals();
}

bool SnapshotSamples(Heap& heap, ProfileKind kind, ProfileMemory* profile) {
  const bool done =
      Table(heap).Snapshot(kind, heap.sampling.period(), heap.virtual_memory, profile);
  profile->profile.time_ns = WallClockNanoseconds();
  return done;
}

bool BeginRecordingSamples(Heap& heap) { return Table(heap).BeginRecording(); }

void EndRecordingSamples() {
  SampleTable* const table = existing_sample_table.load(std::memory_order_acquire);
  if (table != nullptr) table->EndRecording();
}

}  // namespace tcmalloc
