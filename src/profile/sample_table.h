// SPDX-License-Identifier: BSD-3-Clause
// SampleTable: the samples of a process: those whose objects are in use, those that were in use
// when most was, and those allocated since a recording began.
//
// The peak is exact, at the precision of the samples, and costs nothing to keep up: the samples are
// numbered in the order of their allocation, and the peak is the number of the one that raised the
// estimate of what is in use above all before. What was in use then is every sample up to that
// number that was not freed by then: those still in use, and those freed since, which stay on a
// list until a new peak makes them history. A sample is put on each list and taken off it once at
// most, so the cost per sample is constant on average.
//
// Synchronization: LockRank::kSamples, under which nothing is allocated but by copying into memory
// that is there already. Cost per sample: a lock, twice; memory: the sample's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "os/spinlock.h"
#include "os/stack_trace.h"
#include "page/metadata_arena.h"
#include "profile/profile.h"
#include "profile/profile_memory.h"

namespace tcmalloc {

// One sampled allocation, with as many frames behind it as its stack has.
struct Sample {
  ListNode<Sample> list_node;
  const void* object = nullptr;
  size_t requested_bytes = 0;
  size_t allocated_bytes = 0;
  // The mean distance of samples when it was taken, and how many objects it stands for.
  size_t period = 0;
  double weight = 0;
  uint64_t number = 0;
  uint32_t depth = 0;

  const uintptr_t* frames() const { return reinterpret_cast<const uintptr_t*>(this + 1); }
  uintptr_t* frames() { return reinterpret_cast<uintptr_t*>(this + 1); }
  double weighted_bytes() const { return weight * static_cast<double>(requested_bytes); }
};

class SampleTable {
 public:
  explicit SampleTable(MetadataArena& arena) : arena_(arena) {}

  // A sample with room for `depth` frames; null when there is no memory. No lock may be held.
  Sample* New(size_t depth);
  // The sample, complete but for its number, is in use.
  void Add(Sample* sample) TC_EXCLUDES(lock_);
  // Its object is being freed. The sample may be gone afterwards.
  void Remove(Sample* sample) TC_EXCLUDES(lock_);

  // Samples in use, and estimates of what these stand for.
  struct Totals {
    size_t samples = 0;
    size_t bytes = 0;
    size_t peak_bytes = 0;
  };
  Totals GetTotals() TC_EXCLUDES(lock_);

  // From now on what is allocated is kept, whether it is freed or not, until EndRecording. One
  // recording at a time: false when there is one.
  bool BeginRecording() TC_EXCLUDES(lock_);
  void EndRecording() TC_EXCLUDES(lock_);

  // The samples as a profile: kHeap, kPeakHeap, or kAllocations (since BeginRecording). Samples
  // with equal stacks and sizes are one entry. The period of the profile is that of its samples,
  // `period` where there are none; where they have several, the figures of what was recorded are
  // the estimates, and the period is 0. False when there is no memory. Cost: the lock is
  // held while the samples are copied, about 100 ns for each.
  bool Snapshot(ProfileKind kind, size_t period, VirtualMemory& vm, ProfileMemory* profile)
      TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  void Free(IntrusiveList<Sample>* samples);
  static size_t BytesFor(size_t depth) { return sizeof(Sample) + depth * sizeof(uintptr_t); }
  template <typename F>
  void ForEachLocked(ProfileKind kind, F f) TC_REQUIRES(lock_);

  MetadataArena& arena_;

  SpinLock lock_{LockRank::kSamples};
  uint64_t last_number_ TC_GUARDED_BY(lock_) = 0;
  size_t num_live_ TC_GUARDED_BY(lock_) = 0;
  double live_bytes_ TC_GUARDED_BY(lock_) = 0;
  double peak_bytes_ TC_GUARDED_BY(lock_) = 0;
  // The sample that made the peak; those behind it came later.
  uint64_t peak_number_ TC_GUARDED_BY(lock_) = 0;
  // The last one before the recording; UINT64_MAX: none is made.
  uint64_t recording_after_ TC_GUARDED_BY(lock_) = UINT64_MAX;
  IntrusiveList<Sample> live_ TC_GUARDED_BY(lock_);
  // Freed since the peak, of which they are a part.
  IntrusiveList<Sample> freed_since_peak_ TC_GUARDED_BY(lock_);
  // Freed, in no peak, allocated since the recording began.
  IntrusiveList<Sample> freed_in_recording_ TC_GUARDED_BY(lock_);
};

}  // namespace tcmalloc
