// SPDX-License-Identifier: BSD-3-Clause
// Profile: the objects in use, or the allocated objects, by call site, as one immutable value.
// Every format (profile_formats.h) is written from this value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

enum class ProfileKind : uint8_t {
  kHeap,         // in use now
  kPeakHeap,     // in use when most bytes were in use
  kAllocations,  // allocated during an interval
  kGrowth,       // call stacks that made the heap grow, in the order of time
};

// A call stack, and the objects that were allocated from it. In a sampled profile, entries with the
// same stack differ by the size of their objects.
struct ProfileEntry {
  // Return addresses, innermost first.
  const uintptr_t* frames = nullptr;
  size_t depth = 0;
  // Requested bytes of each object; 0 if the sizes differ.
  size_t object_size = 0;
  // Recorded objects and their requested bytes: in use, and allocated in total.
  uint64_t live_objects = 0;
  uint64_t live_bytes = 0;
  uint64_t allocated_objects = 0;
  uint64_t allocated_bytes = 0;
  // Estimates of the real figures; equal to the recorded ones if every allocation was recorded.
  double estimated_live_objects = 0;
  double estimated_live_bytes = 0;
  double estimated_allocated_objects = 0;
  double estimated_allocated_bytes = 0;
  // True if the stack is that of a similar object, as a hint.
  bool guessed_stack = false;
  // A lower bound for the age of the objects' memory; negative if it is unknown.
  int64_t age_at_least_ms = -1;
};

struct Profile {
  ProfileKind kind = ProfileKind::kHeap;
  // The sampling interval in bytes; 0 if the recorded figures must not be scaled.
  size_t sample_period = 0;
  // The time at which the profile was taken (wall clock, nanoseconds since 1970), and the duration
  // that it covers; 0 for one moment.
  int64_t time_ns = 0;
  int64_t duration_ns = 0;
  const ProfileEntry* entries = nullptr;
  size_t num_entries = 0;
};

}  // namespace tcmalloc
