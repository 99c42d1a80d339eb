// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/growth_table.h"

#include <algorithm>
#include <new>

#include "base/compiler.h"
#include "base/tuning.h"

namespace tcmalloc {

ProfileEntry GrowthTable::EntryOf(Record* record) {
  ProfileEntry entry;
  entry.frames = record->frames();
  entry.depth = record->depth;
  entry.allocated_objects = record->times;
  entry.allocated_bytes = record->bytes;
  entry.estimated_allocated_objects = static_cast<double>(record->times);
  entry.estimated_allocated_bytes = static_cast<double>(record->bytes);
  return entry;
}

GrowthTable::Record* GrowthTable::FindLocked(const uintptr_t* frames, size_t depth) {
  Record* found = nullptr;
  for (Record* record = first_; record != nullptr; record = record->next) {
    if (record->depth == depth && std::equal(frames, frames + depth, record->frames())) {
      found = record;
    }
  }
  return found;
}

TC_RUNS_AT_START void GrowthTable::Add(size_t bytes, const uintptr_t* frames, size_t depth) {
  void* const memory = arena_.Allocate(sizeof(Record) + depth * sizeof(uintptr_t));
  if (memory != nullptr) {
    Record* const record = new (memory) Record{nullptr, bytes, 1, depth};
    std::copy_n(frames, depth, record->frames());
    if (Append(record)) return;
    arena_.Free(memory, sizeof(Record) + depth * sizeof(uintptr_t));
  }
  const SpinLockHolder holder(lock_);
  Record* const same = FindLocked(frames, depth);
  Record& counted = same != nullptr ? *same : others_;
  counted.bytes += bytes;
  ++counted.times;
}

TC_RUNS_AT_START bool GrowthTable::Append(Record* record) {
  const SpinLockHolder holder(lock_);
  if (num_records_ == kTuning.sampling.max_growth_stacks) return false;
  (last_ == nullptr ? first_ : last_->next) = record;
  last_ = record;
  ++num_records_;
  num_frames_ += record->depth;
  return true;
}

bool GrowthTable::Snapshot(VirtualMemory& vm, ProfileMemory* profile) {
  for (;;) {
    size_t records;
    size_t frames;
    {
      const SpinLockHolder holder(lock_);
      records = num_records_;
      frames = num_frames_;
    }
    if (!profile->Reserve(vm, records + 16, frames + 1024)) return false;
    bool fits = true;
    {
      const SpinLockHolder holder(lock_);
      for (Record* record = first_; record != nullptr; record = record->next) {
        fits = fits && profile->Append(EntryOf(record));
      }
      if (others_.times > 0) fits = fits && profile->Append(EntryOf(&others_));
    }
    if (!fits) continue;
    profile->profile.kind = ProfileKind::kGrowth;
    profile->Finish();
    return true;
  }
}

}  // namespace tcmalloc
