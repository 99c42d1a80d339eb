// SPDX-License-Identifier: BSD-3-Clause
// The samples of a target, and their sum by call site.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "heap/record.h"
#include "image/memory_room.h"

namespace cli {

// Samples: the sampled allocations of a target, from its sample table.

struct Sample {
  Address object = 0;  // 0 if it was freed
  uint64_t requested_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t interval = 0;        // the sampling interval when the sample was taken
  double weight = 0;            // how many objects it represents
  uint64_t number = 0;          // in the order of the allocations
  std::vector<Address> frames;  // return addresses, innermost first

  bool in_use() const { return object != 0; }
};

struct Samples {
  // False in the minimal library.
  bool supported = false;
  // The present sampling interval, in bytes; 0 if no samples are taken.
  uint64_t interval = 0;
  std::vector<Sample> samples;
  // The library's estimates.
  double in_use_bytes = 0;
  double peak_bytes = 0;
  // The number of the last sample, or of samples so far.
  uint64_t last_number = 0;
  // The number of the last sample at the peak of use, and of the last sample before the program
  // began to record allocations (UINT64_MAX if it has not begun).
  uint64_t peak_number = 0;
  uint64_t recording_after = UINT64_MAX;

  bool recording() const { return recording_after != UINT64_MAX; }
};

// The call stacks of samples. They are read while the target runs, since a stack does not change
// while its sample exists, so they do not lengthen a pause.
class CallStacks {
 public:
  explicit CallStacks(Image& running) : running_(running) {}

  // Returns the stack of the sample with that record. Throws BadImage when the sample does not
  // exist any more.
  const std::vector<Address>& Of(const Record& sample);

 private:
  Image& running_;
  GrowthCheck growth_{"the next part of the call stacks"};
  std::map<std::pair<Address, uint64_t>, std::vector<Address>> known_;  // by address and number
};

// Adds the guards on which the samples depend. Throws BadImage. Without `stacks`, the call stacks
// are read from the target's image, too.
Samples ReadSamples(const Target& target, std::vector<Guard>* guards, CallStacks* stacks = nullptr);
// Returns the bytes of the sample table, its lock included; empty if no table exists. Each change
// of the samples changes these bytes irreversibly, since the samples are numbered. So if they are
// equal before and after a reading, and the lock is free, the samples were those of one moment.
// Throws BadImage.
std::vector<char> SampleTableState(const Target& target);
// Reads one sample, to which a Span refers.
Sample ReadSample(const Target& target, Address address);

// Profile: the objects that are or were in use, by call site. It sums the samples of a target as
// the library's own profiles do.

enum class ProfileKind {
  kInUse,        // in use now
  kPeak,         // in use when most bytes were in use
  kAllocations,  // since the program began to record them, freed or not
};

// The sum of the samples with the same stack and the same size. Objects and bytes are estimates.
struct ProfileEntry {
  std::vector<Address> frames;  // return addresses, innermost first
  uint64_t object_bytes = 0;    // requested bytes of each object
  uint64_t samples = 0;
  double in_use_objects = 0;
  double in_use_bytes = 0;
  double allocated_objects = 0;
  double allocated_bytes = 0;
};

struct Profile {
  ProfileKind kind = ProfileKind::kInUse;
  // The sampling interval of all samples, in bytes; 0 if they have several.
  uint64_t interval = 0;
  int64_t time_ns = 0;  // the time of the profile: wall clock, since 1970
  std::vector<ProfileEntry> entries;

  bool counts_allocated() const { return kind == ProfileKind::kAllocations; }
  double objects(const ProfileEntry& entry) const {
    return counts_allocated() ? entry.allocated_objects : entry.in_use_objects;
  }
  double bytes(const ProfileEntry& entry) const {
    return counts_allocated() ? entry.allocated_bytes : entry.in_use_bytes;
  }
};

Profile MakeProfile(const Samples& samples, ProfileKind kind);

// Returns the estimate, by the samples, of the bytes that the program holds, if it is so far below
// `held_bytes` (Statistics: in_use_bytes) that objects were allocated while no samples were taken;
// else nullopt.
std::optional<double> EstimateIfShort(const Samples& samples, uint64_t held_bytes);

// The address within the call: the return address may belong to the next line or function.
inline Address CallBefore(Address return_address) {
  return return_address == 0 ? 0 : return_address - 1;
}

}  // namespace cli
