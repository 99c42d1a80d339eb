// SPDX-License-Identifier: BSD-3-Clause
// GrowthTable: where the heap was made to grow: a stack for each time, in the order of time. It
// only grows, at most to Tuning::Sampling::max_growth_stacks: further growth is counted by the last
// record of an equal stack, else by a record without a stack, the last one of a profile, as is what
// there is no memory for. So the sum is always what the heap has grown.
//
// Synchronization: LockRank::kSamples, never together with that of a SampleTable. Cost: a lock for
// each growth, and a look through all records when it is full. Memory: 8 bytes for each frame and
// 32 more, for a MiB or more that came from the system; about a MiB with the deepest stacks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/spinlock.h"
#include "page/metadata_arena.h"
#include "profile/profile_memory.h"

namespace tcmalloc {

class GrowthTable {
 public:
  explicit GrowthTable(MetadataArena& arena) : arena_(arena) {}

  void Add(size_t bytes, const uintptr_t* frames, size_t depth) TC_EXCLUDES(lock_);

  // As a profile of the kind kGrowth. False when there is no memory.
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
  // False when there are as many as there may be.
  bool Append(Record* record) TC_EXCLUDES(lock_);
  Record* FindLocked(const uintptr_t* frames, size_t depth) TC_REQUIRES(lock_);

  MetadataArena& arena_;

  SpinLock lock_{LockRank::kSamples};
  // In the order of time.
  Record* first_ TC_GUARDED_BY(lock_) = nullptr;
  Record* last_ TC_GUARDED_BY(lock_) = nullptr;
  size_t num_records_ TC_GUARDED_BY(lock_) = 0;
  size_t num_frames_ TC_GUARDED_BY(lock_) = 0;
  // What no record of a stack counts.
  Record others_ TC_GUARDED_BY(lock_);
};

}  // namespace tcmalloc
