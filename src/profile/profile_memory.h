// SPDX-License-Identifier: BSD-3-Clause
// ProfileMemory: a Profile together with the one mapping that holds its entries and their frames.
// Filled by one thread, immutable after Finish, when it may be handed around.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/virtual_memory.h"
#include "profile/profile.h"

namespace tcmalloc {

class ProfileMemory {
 public:
  ProfileMemory() = default;
  ProfileMemory(const ProfileMemory&) = delete;
  ProfileMemory& operator=(const ProfileMemory&) = delete;
  ~ProfileMemory() { Free(); }

  // An empty profile with room for so many entries, and frames of all of them together. False when
  // there is no memory. What was in it before is gone. `vm` outlives it.
  bool Reserve(VirtualMemory& vm, size_t entries, size_t frames);
  void Free();

  // Copies an entry and its frames; false when there is no room. Writes to the mapping, and makes
  // no system call.
  bool Append(const ProfileEntry& entry);
  // Makes the figures of what was recorded what they are estimated to stand for.
  void UseEstimates();
  // Makes entries with the same stack and object size one, unless the profile's order means
  // something. Cost: n log n comparisons.
  void Finish();

  // All but the entries may be written until Finish.
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
