// SPDX-License-Identifier: BSD-3-Clause
// Profile: where memory was allocated, as one immutable value; who writes profiles, in whichever
// format, writes such a value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// An address inside the call instruction before `return_address`. The return address itself may
// belong to the next function.
constexpr uintptr_t CallBefore(uintptr_t return_address) {
  return return_address == 0 ? 0 : return_address - 1;
}

enum class ProfileKind : uint8_t {
  kHeap,         // what is in use now
  kPeakHeap,     // what was in use when most was
  kAllocations,  // what was allocated during an interval
  kGrowth,       // where the heap was made to grow, in the order of time
};

// One call stack, and what was allocated from there. Where allocations are sampled, the entries of
// one stack are apart by the size of the objects.
struct ProfileEntry {
  // Return addresses, the innermost first.
  const uintptr_t* frames = nullptr;
  size_t depth = 0;
  // As the program asked for it; 0: various.
  size_t object_size = 0;
  // What was recorded: objects and bytes as the program asked for them, in use, and allocated
  // altogether.
  uint64_t live_objects = 0;
  uint64_t live_bytes = 0;
  uint64_t allocated_objects = 0;
  uint64_t allocated_bytes = 0;
  // What that stands for; the same where nothing was left out.
  double estimated_live_objects = 0;
  double estimated_live_bytes = 0;
  double estimated_allocated_objects = 0;
  double estimated_allocated_bytes = 0;
  // The stack is that of another object, which had something in common with these: a hint.
  bool guessed_stack = false;
  // How old the memory of the objects is at least; below zero: not known.
  int64_t age_at_least_ms = -1;
};

struct Profile {
  ProfileKind kind = ProfileKind::kHeap;
  // Mean distance of samples in bytes; 0: everything was recorded.
  size_t sample_period = 0;
  // When it was taken, by the wall clock (nanoseconds since 1970), and how much time it covers; 0:
  // a moment.
  int64_t time_ns = 0;
  int64_t duration_ns = 0;
  const ProfileEntry* entries = nullptr;
  size_t num_entries = 0;
};

}  // namespace tcmalloc
