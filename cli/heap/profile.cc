// SPDX-License-Identifier: BSD-3-Clause
#include "heap/profile.h"

#include <algorithm>
#include <map>
#include <utility>

namespace cli {
namespace {

// Whether the sample is a part of the profile.
bool Belongs(const Sample& sample, const Samples& all, ProfileKind kind) {
  switch (kind) {
    case ProfileKind::kInUse:
      return sample.in_use();
    case ProfileKind::kPeak:
      return sample.number <= all.peak_number;
    case ProfileKind::kAllocations:
      return all.recording() && sample.number > all.recording_after;
  }
  return false;
}

// The properties that the samples of one entry share. Refers to the stack of a sample.
struct Key {
  uint64_t requested_bytes;
  const std::vector<Address>* frames;

  bool operator<(const Key& other) const {
    if (requested_bytes != other.requested_bytes) return requested_bytes < other.requested_bytes;
    const size_t depth = std::min(frames->size(), other.frames->size());
    const Address* const mine = frames->data();
    const auto [end, differs] = std::mismatch(mine, mine + depth, other.frames->data());
    if (end != mine + depth) return *end < *differs;
    return frames->size() < other.frames->size();
  }
};

}  // namespace

Profile MakeProfile(const Samples& all, ProfileKind kind) {
  Profile profile{.kind = kind};
  std::map<Key, ProfileEntry> entries;
  bool several = false;
  for (const Sample& sample : all.samples) {
    if (!Belongs(sample, all, kind)) continue;
    several |= profile.interval != 0 && profile.interval != sample.interval;
    profile.interval = sample.interval;
    ProfileEntry& entry = entries[{sample.requested_bytes, &sample.frames}];
    const double bytes = sample.weight * static_cast<double>(sample.requested_bytes);
    ++entry.samples;
    entry.allocated_objects += sample.weight;
    entry.allocated_bytes += bytes;
    // All samples of the peak were in use at that time.
    if (sample.in_use() || kind == ProfileKind::kPeak) {
      entry.in_use_objects += sample.weight;
      entry.in_use_bytes += bytes;
    }
  }
  if (several) profile.interval = 0;
  if (entries.empty()) profile.interval = all.interval;
  for (auto& [key, entry] : entries) {
    entry.frames = *key.frames;
    entry.object_bytes = key.requested_bytes;
    profile.entries.push_back(std::move(entry));
  }
  return profile;
}

}  // namespace cli
