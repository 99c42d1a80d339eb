// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/profile.h"

#include <algorithm>

#include "base/units.h"
#include "instruments/profiles/profile_formats.h"

namespace tcmalloc {
namespace {

// A total order in which equal stacks with equal sizes are adjacent.
bool Before(const ProfileEntry& a, const ProfileEntry& b) {
  if (a.depth != b.depth) return a.depth < b.depth;
  if (a.object_size != b.object_size) return a.object_size < b.object_size;
  for (size_t i = 0; i < a.depth; ++i) {
    if (a.frames[i] != b.frames[i]) return a.frames[i] < b.frames[i];
  }
  return false;
}

void Add(const ProfileEntry& from, ProfileEntry* to) {
  to->live_objects += from.live_objects;
  to->live_bytes += from.live_bytes;
  to->allocated_objects += from.allocated_objects;
  to->allocated_bytes += from.allocated_bytes;
  to->estimated_live_objects += from.estimated_live_objects;
  to->estimated_live_bytes += from.estimated_live_bytes;
  to->estimated_allocated_objects += from.estimated_allocated_objects;
  to->estimated_allocated_bytes += from.estimated_allocated_bytes;
}

}  // namespace

bool ProfileMemory::Reserve(VirtualMemory& vm, size_t entries, size_t frames) {
  Free();
  vm_ = &vm;
  if (entries > SIZE_MAX / 2 / sizeof(ProfileEntry) || frames > SIZE_MAX / 4 / sizeof(uintptr_t)) {
    return false;
  }
  const size_t wanted = entries * sizeof(ProfileEntry) + frames * sizeof(uintptr_t);
  bytes_ =
      std::max(kPageSize, (wanted + vm.hardware_page_size() - 1) & ~(vm.hardware_page_size() - 1));
  memory_ = vm.Map(bytes_, kPageSize).start;
  if (memory_ == nullptr) return false;
  entries_ = static_cast<ProfileEntry*>(memory_);
  frames_ = reinterpret_cast<uintptr_t*>(entries_ + entries);
  max_entries_ = entries;
  frames_left_ = frames;
  profile = Profile();
  profile.entries = entries_;
  return true;
}

void ProfileMemory::Free() {
  // Memory that cannot be unmapped is at least released.
  if (memory_ != nullptr && !vm_->Unmap(memory_, bytes_)) {
    static_cast<void>(vm_->Release(memory_, bytes_));
  }
  memory_ = nullptr;
  profile = Profile();
}

bool ProfileMemory::Append(const ProfileEntry& entry) {
  if (profile.num_entries == max_entries_ || entry.depth > frames_left_) return false;
  std::copy_n(entry.frames, entry.depth, frames_);
  ProfileEntry& own = entries_[profile.num_entries++];
  own = entry;
  own.frames = frames_;
  frames_ += entry.depth;
  frames_left_ -= entry.depth;
  return true;
}

void ProfileMemory::UseEstimates() {
  const auto rounded = [](double estimate) {
    return static_cast<uint64_t>(RoundedEstimate(estimate));
  };
  for (size_t i = 0; i < profile.num_entries; ++i) {
    ProfileEntry& entry = entries_[i];
    entry.live_objects = rounded(entry.estimated_live_objects);
    entry.live_bytes = rounded(entry.estimated_live_bytes);
    entry.allocated_objects = rounded(entry.estimated_allocated_objects);
    entry.allocated_bytes = rounded(entry.estimated_allocated_bytes);
  }
}

void ProfileMemory::Finish() {
  if (profile.kind == ProfileKind::kGrowth || profile.num_entries == 0) return;
  std::sort(entries_, entries_ + profile.num_entries, &Before);
  size_t last = 0;
  for (size_t i = 1; i < profile.num_entries; ++i) {
    if (Before(entries_[last], entries_[i])) {
      entries_[++last] = entries_[i];
    } else {
      Add(entries_[i], &entries_[last]);
    }
  }
  profile.num_entries = last + 1;
}

}  // namespace tcmalloc
