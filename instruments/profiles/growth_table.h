// SPDX-License-Identifier: BSD-3-Clause
// GrowthTable: the call stacks that made the heap grow, with one record per growth, in the order of
// time. It has at most Tuning::Sampling::max_growth_stacks records. Later growth, and growth for
// which there is no memory for a record, is added to the last record with an equal stack. If there
// is none, it is added to a record without a stack, which is the last one of a profile. So the sum
// of the records always equals the growth of the heap.
//
// Synchronization: LockRank::kSamples; this lock is never held together with the lock of a
// SampleTable. Cost: a lock for each growth, and a walk over all records when it is full. Memory:
// 32 bytes per record and 8 per frame, while each record stands for at least one MiB from the OS;
// about one MiB in all with the deepest stacks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/profiles/profile.h"
#include "os/spinlock.h"
#include "page_heap/metadata_arena.h"

namespace tcmalloc {

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
