// SPDX-License-Identifier: BSD-3-Clause
// Profiles as values, and the formats that their readers know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "formats/profiles/profile_writers.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/memory/mapped_array.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

// Profile: the objects in use, or the allocated objects, by call site, as one immutable value.
// ProfileMemory makes one. Every format (instruments/profiles/profile.h) is written from
// this value, to a ByteSink.

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

// A Profile in the formats that its readers know, and numbers for addresses, which profile.proto
// needs. The formats themselves: formats/profiles/profile_writers.h. docs/decisions/0017 explains
// the choice of formats.
//
// Nothing here allocates from the heap or takes a lock: memory comes from the OS. Called by any
// thread that holds no lock; other threads may load libraries meanwhile. Changes errno. Cost:
// linear in the frames of all entries, about a microsecond per entry; about 100 KiB of memory, and
// with kProto 32 bytes for each distinct address.

// AddressTable: numbers addresses from 1 on, in the order in which they are first seen. An
// insertion that needs more memory than there is fails and changes nothing. Thread safety: none.
// Cost: constant, mostly one cache miss; 32 bytes or less per address.
class AddressTable {
 public:
  explicit AddressTable(VirtualMemory& vm) : slots_(vm), vm_(vm) {}

  struct Result {
    uint32_t number;  // 0: no memory
    bool is_new;
  };
  Result FindOrInsert(uintptr_t address);

 private:
  static constexpr size_t kFirstSlots = 4096;

  struct Slot {
    uintptr_t address;
    uint32_t number;  // 0: free
  };

  // Returns the slot of `address`, or the free slot for it. Requires: some slot is free.
  Slot& SlotOf(uintptr_t address);
  [[nodiscard]] bool Grow();

  // Open addressing: an address is at its hash, or in the next free slot. The number of slots is a
  // power of two, and at most half of them are used.
  MappedArray<Slot> slots_;
  VirtualMemory& vm_;
  uint32_t count_ = 0;
};

enum class ProfileFormat : uint8_t {
  // pprof's format, not compressed. Values are the estimates, rounded.
  kProto,
  // The text of gperftools' profilers, with the mapped libraries as /proc/self/maps lists them.
  // Values are the recorded ones, which readers scale.
  kLegacyText,
  // A line for each entry: its frames, outermost first, separated by semicolons, and the estimated
  // bytes. Tools that draw flame graphs read it. A frame is FILE+0xADDRESS; `addr2line -Cfip -e
  // FILE 0xADDRESS` names it.
  kFolded,
};

// Writes the profile, with the libraries that are mapped now. Profiles of allocations and growth
// show the allocated objects, the others the live ones. False when writing failed or there is no
// memory; then the sink's data are not a profile. Without /proc a profile has no libraries.
[[nodiscard]] bool WriteProfile(const Profile& profile, ProfileFormat format,
                                ByteSink::Function function, void* context);

// As WriteProfile, to an open file.
[[nodiscard]] bool WriteProfileToFile(const Profile& profile, ProfileFormat format, int fd);

// Each function writes one format. False when there is no memory; ByteSink::ok() is false when
// writing failed.
[[nodiscard]] bool WriteProtoProfile(const Profile& profile, const MappedLibraries& libraries,
                                     VirtualMemory& vm, ByteSink* out);
// Writes the part that precedes the text of /proc/self/maps.
void WriteLegacyProfile(const Profile& profile, ByteSink* out);
void WriteFoldedProfile(const Profile& profile, const MappedLibraries& libraries, ByteSink* out);

// Whether a profile shows the allocated objects, not the live ones.
constexpr bool CountsAllocated(ProfileKind kind) {
  return kind == ProfileKind::kAllocations || kind == ProfileKind::kGrowth;
}

}  // namespace tcmalloc
