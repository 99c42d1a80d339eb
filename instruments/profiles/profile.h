// SPDX-License-Identifier: BSD-3-Clause
// Profile: the objects in use, or the allocated objects, by call site, as one immutable value.
// ProfileMemory makes one. Every format (instruments/profiles/profile_formats.h) is written from
// this value, to a ByteSink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/memory/virtual_memory.h"

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

// ProfileMemory: a Profile, and the one mapping that holds its entries and their frames. One thread
// fills it; it is immutable after Finish.
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

// ByteSink: passes the bytes of a writer to a function, one piece after another. After a failure it
// drops the rest, so a writer needs to check ok() only at the end. Thread safety: none.
class ByteSink {
 public:
  // Accepts `size` bytes; false when that failed.
  using Function = bool (*)(const void* data, size_t size, void* context);

  ByteSink(Function function, void* context) : function_(function), context_(context) {}

  void Write(const void* data, size_t size) {
    if (ok_ && size > 0) ok_ = function_(data, size, context_);
  }

  // True if everything so far was written.
  bool ok() const { return ok_; }

  // For a TextWriter, with the sink as its context.
  static void Text(std::string_view text, void* sink) {
    static_cast<ByteSink*>(sink)->Write(text.data(), text.size());
  }

 private:
  const Function function_;
  void* const context_;
  bool ok_ = true;
};

}  // namespace tcmalloc
