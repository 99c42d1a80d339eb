// SPDX-License-Identifier: BSD-3-Clause
// ProfileMemory: a Profile, and the one mapping that holds its entries and their frames. One thread
// fills it; it is immutable after Finish.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/profiles/profile.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

class ProfileMemory {
 public:
  ProfileMemory() = default;
  ProfileMemory(const ProfileMemory&) = delete;
  ProfileMemory& operator=(const ProfileMemory&) = delete;
  ~ProfileMemory() { Free(); }

  // Makes an empty profile with room for `entries` and, for all of them together, `frames`. Drops
  // the former contents. False when there is no memory. `vm` outlives it.
  bool Reserve(VirtualMemory& vm, size_t entries, size_t frames);
  void Free();

  // Copies an entry and its frames. False when there is no room. Makes no system call.
  bool Append(const ProfileEntry& entry);
  // Replaces the recorded figures by the estimates.
  void UseEstimates();
  // Joins entries with the same stack and object size, except in a kGrowth profile, whose order
  // matters. Cost: n log n comparisons.
  void Finish();

  // The caller may write all members but the entries until Finish.
  Profile profile;

 private:
  VirtualMemory* vm_ = nullptr;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  ProfileEntry* entries_ = nullptr;
  uintptr_t* frames_ = nullptr;
  size_t max_entries_ = 0;
  size_t frames_left_ = 0;
};

}  // namespace tcmalloc
