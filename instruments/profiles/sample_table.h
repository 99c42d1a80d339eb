// SPDX-License-Identifier: BSD-3-Clause
// What the library records while no profiler runs: samples of allocations, and the growth of the
// heap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/intrusive.h"
#include "instruments/profiles/profile.h"
#include "os/spinlock.h"
#include "os/stack_trace.h"
#include "page_heap/metadata_arena.h"

namespace tcmalloc {

// SampleTable has the samples of a process that are in use, those that were in use at the peak, and
// those that were allocated since a recording began.
//
// The peak is exact, at the precision of the samples, and costs nothing to keep. Samples are
// numbered in the order of their allocation; the peak is the number of the sample that raised the
// estimated bytes in use to a new maximum. The peak consists of every sample up to that number that
// was not freed by then: the samples still in use, and those freed since, which stay in a list
// until the next peak. Each sample enters and leaves each list once at most, so the cost per sample
// is constant on average.
//
// Records are together in blocks, apart from their stacks: a reader outside of the process stops
// the process while it copies them, and many small pieces take much longer than a few large ones.
//
// Synchronization: LockRank::kSamples. Nothing is allocated under it: a profile is copied into
// memory that was reserved before. Cost per sample: the lock, three times, and the memory of the
// record and its stack. The memory of records is used again only for other records.

// A sampled allocation.
struct Sample {
  ListNode<Sample> list_node;
  const void* object = nullptr;
  size_t requested_bytes = 0;
  size_t allocated_bytes = 0;
  // The sampling interval when the sample was taken, and the number of objects that it represents.
  size_t period = 0;
  double weight = 0;
  // 0 if the sample is not in the table. A reader of the running process accepts the stack if the
  // number is the same before and after it reads the stack.
  uint64_t number = 0;
  uint32_t depth = 0;
  // `depth` return addresses, innermost first.
  uintptr_t* stack = nullptr;

  double weighted_bytes() const { return weight * static_cast<double>(requested_bytes); }
};

class SampleTable {
 public:
  explicit SampleTable(MetadataArena& arena) : arena_(arena) {}

  // Makes a new sample with room for `depth` frames; null when there is no memory. Requires: no
  // lock is held.
  Sample* New(size_t depth);
  // Adds a sample in use, complete but for its number.
  void Add(Sample* sample) TC_EXCLUDES(lock_);
  // Called when the sample's object is being freed. The sample may be freed, too.
  void Remove(Sample* sample) TC_EXCLUDES(lock_);

  // Samples in use, and the estimated bytes in use now and at the peak.
  struct Totals {
    size_t samples = 0;
    size_t bytes = 0;
    size_t peak_bytes = 0;
  };
  Totals GetTotals() TC_EXCLUDES(lock_);

  // Keeps the samples of all objects allocated from now on, freed or not, until EndRecording. False
  // when a recording runs already.
  bool BeginRecording() TC_EXCLUDES(lock_);
  void EndRecording() TC_EXCLUDES(lock_);

  // Takes a profile: kHeap, kPeakHeap, or kAllocations (since BeginRecording). Samples with equal
  // stacks and sizes are one entry. The profile's period is that of its samples; `period` if there
  // are none; 0 if they have several, and then the estimates replace the recorded figures. False
  // when there is no memory. Cost: the lock is held while the samples are copied, about 100 ns for
  // each.
  bool Snapshot(ProfileKind kind, size_t period, VirtualMemory& vm, ProfileMemory* profile)
      TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  // Records are taken out of blocks, and kept when they are free.
  Sample* NewRecord() TC_EXCLUDES(lock_);
  Sample* TakeRecordLocked() TC_REQUIRES(lock_);
  void KeepRecordLocked(Sample* record) TC_REQUIRES(lock_);
  void FreeStack(uintptr_t* stack, size_t depth);
  // Frees samples that are in no list.
  void Free(Sample* sample) TC_EXCLUDES(lock_);
  void Free(IntrusiveList<Sample>* samples) TC_EXCLUDES(lock_);
  template <typename F>
  void ForEachLocked(ProfileKind kind, F f) TC_REQUIRES(lock_);

  MetadataArena& arena_;

  SpinLock lock_{LockRank::kSamples};
  uint64_t last_number_ TC_GUARDED_BY(lock_) = 0;
  size_t num_live_ TC_GUARDED_BY(lock_) = 0;
  double live_bytes_ TC_GUARDED_BY(lock_) = 0;
  double peak_bytes_ TC_GUARDED_BY(lock_) = 0;
  // The last sample of the peak.
  uint64_t peak_number_ TC_GUARDED_BY(lock_) = 0;
  // The last sample before the recording; UINT64_MAX if no recording runs.
  uint64_t recording_after_ TC_GUARDED_BY(lock_) = UINT64_MAX;
  IntrusiveList<Sample> live_ TC_GUARDED_BY(lock_);
  // Samples that were freed since the peak and are a part of it.
  IntrusiveList<Sample> freed_since_peak_ TC_GUARDED_BY(lock_);
  // Samples that were freed, are not a part of the peak, and were allocated since the recording
  // began.
  IntrusiveList<Sample> freed_in_recording_ TC_GUARDED_BY(lock_);
  IntrusiveList<Sample> free_records_ TC_GUARDED_BY(lock_);
  // The part of the newest block that was not used yet.
  Sample* unused_records_ TC_GUARDED_BY(lock_) = nullptr;
  size_t num_unused_records_ TC_GUARDED_BY(lock_) = 0;
};

// The most growth stacks that are kept: enough for 64 GiB in a heap that grows by kMaxGrowth each
// time.
inline constexpr size_t kMaxGrowthStacks = 1024;

// GrowthTable: the call stacks that made the heap grow, with one record per growth, in the order of
// time. It has at most kMaxGrowthStacks records. Later growth, and growth for which there is no
// memory for a record, is added to the last record with an equal stack. If there is none, it is
// added to a record without a stack, which is the last one of a profile. So the sum of the records
// always equals the growth of the heap.
//
// Synchronization: LockRank::kSamples; this lock is never held together with the lock of a
// SampleTable. Cost: a lock for each growth, and a walk over all records when it is full. Memory:
// 32 bytes per record and 8 per frame, while each record stands for at least one MiB from the OS;
// about one MiB in all with the deepest stacks.
class GrowthTable {
 public:
  explicit GrowthTable(MetadataArena& arena) : arena_(arena) {}

  void Add(size_t bytes, const uintptr_t* frames, size_t depth) TC_EXCLUDES(lock_);

  // Takes a profile of the kind kGrowth. False when there is no memory.
  bool Snapshot(VirtualMemory& vm, ProfileMemory* profile) TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  struct Record {
    Record* next = nullptr;
    size_t bytes = 0;
    size_t times = 0;
    size_t depth = 0;

    uintptr_t* frames() { return reinterpret_cast<uintptr_t*>(this + 1); }
  };

  static ProfileEntry EntryOf(Record* record);
  // False when the table is full.
  bool Append(Record* record) TC_EXCLUDES(lock_);
  Record* FindLocked(const uintptr_t* frames, size_t depth) TC_REQUIRES(lock_);

  MetadataArena& arena_;

  SpinLock lock_{LockRank::kSamples};
  // In the order of time.
  Record* first_ TC_GUARDED_BY(lock_) = nullptr;
  Record* last_ TC_GUARDED_BY(lock_) = nullptr;
  size_t num_records_ TC_GUARDED_BY(lock_) = 0;
  size_t num_frames_ TC_GUARDED_BY(lock_) = 0;
  // The growth that no record with a stack counts.
  Record others_ TC_GUARDED_BY(lock_);
};

}  // namespace tcmalloc
