// SPDX-License-Identifier: BSD-3-Clause
// Profile: the objects that are or were in use, by call site. It sums the samples of a target as
// the library's own profiles do.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "heap/samples.h"

namespace cli {

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

// The address within the call: the return address may belong to the next line or function.
inline Address CallBefore(Address return_address) {
  return return_address == 0 ? 0 : return_address - 1;
}

}  // namespace cli
