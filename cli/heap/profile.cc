// SPDX-License-Identifier: BSD-3-Clause
#include "heap/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "heap/walks.h"

namespace cli {
namespace {

// A sample of one byte at the longest interval stands for fewer objects.
constexpr double kMaxWeight = 1e19;
// The stacks of a table have fewer bytes: one in a few kilobytes of a heap is recorded.
constexpr size_t kMostStackBytes = size_t{1} << 30;

double Double(const Record& record, std::string_view field) {
  return std::bit_cast<double>(record.Get(field));
}

// Reads all fields but the stack.
Sample SampleOf(const Record& record) {
  Sample sample{.object = record.Get("object"),
                .requested_bytes = record.Get("requested_bytes"),
                .allocated_bytes = record.Get("allocated_bytes"),
                .interval = record.Get("period"),
                .weight = Double(record, "weight"),
                .number = record.Get("number")};
  if (!(sample.weight >= 0 && sample.weight < kMaxWeight)) {
    throw BadImage(fmt::format("the sample at {:#x} contradicts itself", record.address()));
  }
  return sample;
}

std::vector<Address> ReadFrames(Image& image, const Record& record) {
  const size_t depth = record.Get("depth");
  if (depth > kMaxFrames) {
    throw BadImage(fmt::format("the sample at {:#x} contradicts itself", record.address()));
  }
  const size_t pointer = record.target().pointer_bytes();
  std::vector<char> bytes(depth * pointer);
  const Address first = record.Get("stack");
  if (!bytes.empty() && !image.Read(first, bytes.data(), bytes.size())) {
    throw BadImage(fmt::format("the frames at {:#x} are not readable", first));
  }
  std::vector<Address> frames(depth);
  for (size_t i = 0; i < depth; ++i) {
    std::copy_n(&bytes[i * pointer], pointer, reinterpret_cast<char*>(&frames[i]));
  }
  return frames;
}

// Returns the address of the SampleTable; 0 if it does not exist yet, or the library has no
// samples.
Address TableOf(const Target& target, bool* supported) {
  const size_t pointer = target.pointer_bytes();
  constexpr size_t kTableOfLayout = 2;  // SampleLayout: text, bytes, address of the pointer
  Address place = 0;
  Address table = 0;
  const Address layout = target.root().samples + kTableOfLayout * pointer;
  *supported = false;
  if (target.root().samples == 0) return 0;
  if (!target.image().Read(layout, &place, pointer)) {
    throw BadImage(fmt::format("the SampleLayout at {:#x} is not readable", layout));
  }
  *supported = place != 0;
  if (*supported && !target.image().Read(place, &table, pointer)) {
    throw BadImage(fmt::format("the pointer to the SampleTable at {:#x} is not readable", place));
  }
  return table;
}

}  // namespace

Sample ReadSample(const Target& target, Address address) {
  const Record record = target.Load("Sample", address);
  Sample sample = SampleOf(record);
  sample.frames = ReadFrames(target.image(), record);
  return sample;
}

const std::vector<Address>& CallStacks::Of(const Record& sample) {
  const uint64_t number = sample.Get("number");
  const auto [at, is_new] = known_.try_emplace({sample.address(), number});
  if (!is_new) return at->second;
  try {
    at->second = ReadFrames(running_, sample);
    growth_.Add(at->second.size() * sizeof(Address));
    // The record's memory may have been used again by now; then it has another number.
    const Field& field = sample.structure().field("number");
    uint64_t number_now = 0;
    if (field.bytes > sizeof(number_now) ||
        !running_.Read(sample.AddressOf("number"), &number_now, field.bytes) ||
        number_now != number || number == 0) {
      throw BadImage(fmt::format("the sample at {:#x} was freed", sample.address()));
    }
  } catch (const BadImage&) {
    known_.erase(at);
    throw;
  }
  return at->second;
}

std::vector<char> SampleTableState(const Target& target) {
  bool supported = false;
  const Address address = TableOf(target, &supported);
  if (address == 0) return {};
  std::vector<char> bytes(target.layout().structure("SampleTable").bytes);
  if (!target.image().Read(address, bytes.data(), bytes.size())) {
    throw BadImage(fmt::format("the SampleTable at {:#x} is not readable", address));
  }
  return bytes;
}

Samples ReadSamples(const Target& target, std::vector<Guard>* guards, CallStacks* stacks) {
  Samples all;
  const Address address = TableOf(target, &all.supported);
  if (!all.supported) return all;
  all.interval = target.LoadHeap().Get("sample_period");
  if (address == 0) return all;
  const Record table = target.Load("SampleTable", address);
  table.AddGuards(guards);
  all.in_use_bytes = Double(table, "live_bytes_");
  all.peak_bytes = Double(table, "peak_bytes_");
  all.last_number = table.Get("last_number_");
  all.peak_number = table.Get("peak_number_");
  all.recording_after = table.Get("recording_after_");
  GrowthCheck growth("the next part of the call stacks");
  size_t stack_bytes = 0;
  for (const char* const list : {"live_", "freed_since_peak_", "freed_in_recording_"}) {
    ForEachInList(target, "Sample", table.Get(list), [&](const Record& record) {
      all.samples.push_back(SampleOf(record));
      all.samples.back().frames =
          stacks != nullptr ? stacks->Of(record) : ReadFrames(target.image(), record);
      const size_t bytes = all.samples.back().frames.size() * sizeof(Address);
      growth.Add(sizeof(Sample) + bytes);
      stack_bytes += bytes;
      if (stack_bytes > kMostStackBytes) throw BadImage("the samples have too many frames");
    });
  }
  return all;
}

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

namespace {

// A smaller part of the held bytes may be missing in any process: a few objects have no samples,
// and the readings are of different moments.
constexpr double kNotableShortfall = 0.1;
// The chance of a shortfall in a process that sampled all along is below e^-10, 1 in 22,000.
constexpr double kLeastExponent = 10;

}  // namespace

// If one sample stands for T bytes, the number of samples of H held bytes is about that of a
// Poisson distribution with the mean m = H / T; its spread is 1 / sqrt(m) of the mean. (Objects
// near or above T vary less.) By Chernoff's bound the chance of n samples or fewer is at most
// e^-(m - n + n ln(n / m)): for large m, e^-10 is 4.5 standard deviations.
std::optional<double> EstimateIfShort(const Samples& samples, uint64_t held_bytes) {
  double estimate = 0;
  uint64_t interval = samples.interval;
  for (const Sample& sample : samples.samples) {
    if (!sample.in_use()) continue;
    estimate += sample.weight * static_cast<double>(sample.allocated_bytes);
    interval = std::max(interval, sample.interval);
  }
  const auto held = static_cast<double>(held_bytes);
  if (estimate > held * (1 - kNotableShortfall) || interval == 0) return std::nullopt;
  const double expected = held / static_cast<double>(interval);
  const double found = estimate / static_cast<double>(interval);
  const double exponent = expected - found + (found > 0 ? found * std::log(found / expected) : 0);
  if (exponent < kLeastExponent) return std::nullopt;
  return estimate;
}

}  // namespace cli
