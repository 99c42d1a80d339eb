// SPDX-License-Identifier: BSD-3-Clause
// How leaked objects without a known call site are grouped: by their age, and by the sampled object
// that is nearest.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "formats/marker/searched_memory.h"

namespace tcmalloc {

// AgeBucket: a coarse age, so that leaked objects with one cause fall into one bucket. A pure
// function of a duration.
enum class AgeBucket : uint8_t { kSecond, kTenSeconds, kMinute, kTenMinutes, kHour, kOlder };

constexpr size_t kNumAgeBuckets = 6;

// Each bucket ends where the next one begins; the last one has no end.
constexpr std::array<int64_t, kNumAgeBuckets> kAgeBucketStartsMs = {0,      1'000,   10'000,
                                                                    60'000, 600'000, 3'600'000};

// A negative age counts as 0: the coarse clock may differ by a tick between CPUs.
constexpr AgeBucket AgeBucketOf(int64_t age_ms) {
  size_t bucket = 0;
  while (bucket + 1 < kNumAgeBuckets && age_ms >= kAgeBucketStartsMs[bucket + 1]) ++bucket;
  return static_cast<AgeBucket>(bucket);
}

// Ages in the bucket are in [AgeAtLeastMs, AgeBelowMs).
constexpr int64_t AgeAtLeastMs(AgeBucket bucket) {
  return kAgeBucketStartsMs[static_cast<size_t>(bucket)];
}
constexpr int64_t AgeBelowMs(AgeBucket bucket) {
  return bucket == AgeBucket::kOlder ? INT64_MAX
                                     : kAgeBucketStartsMs[static_cast<size_t>(bucket) + 1];
}

// SampledSites: the sampled objects in use at one moment, by which the call site of an object
// without a known stack is guessed.
//
// Nearest. The nearest sample has the same size, since objects of one size mostly come from few
// call sites. Of the samples of that size, it is the one whose span was handed out at the nearest
// time: a span is filled soon after it is handed out, mostly by the code that allocates at that
// time. Of several samples with that time, it is the one at the nearest address. An object of the
// same span would be better evidence, but a sampled object has its own span.
//
// It uses memory of the check and takes no lock. One thread fills and sorts it; then any thread may
// read it. Cost: 32 bytes per sample, a sort, and a binary search per lookup; some 0.3 us per
// sample.
class SampledSites {
 public:
  struct Key {
    size_t object_bytes = 0;  // usable bytes
    int64_t handed_out_ms = 0;
    uintptr_t address = 0;
  };

  explicit SampledSites(ScratchMemory& memory) : memory_(memory) {}
  SampledSites(const SampledSites&) = delete;
  SampledSites& operator=(const SampledSites&) = delete;

  // Makes room for `n` samples, once. False when there is no memory.
  [[nodiscard]] bool Reserve(size_t n);
  // Requires: `sample` is not null; there is room.
  void Add(const Key& key, const void* sample) { samples_[size_++] = {key, sample}; }
  // Called after the last Add.
  void Sort();

  // Returns the sample nearest to an object; null when there is none of the same size.
  const void* Nearest(const Key& object) const;

 private:
  struct Sampled {
    Key key;
    const void* sample;
  };

  static uint64_t Distance(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }
  static uint64_t TimeDistance(int64_t a, int64_t b) {
    return Distance(static_cast<uint64_t>(a), static_cast<uint64_t>(b));
  }
  static bool Before(const Key& a, const Key& b) {
    if (a.object_bytes != b.object_bytes) return a.object_bytes < b.object_bytes;
    if (a.handed_out_ms != b.handed_out_ms) return a.handed_out_ms < b.handed_out_ms;
    return a.address < b.address;
  }
  // The first sample that is not before `key`.
  const Sampled* FirstFrom(const Key& key) const;
  // The nearest sample of the object's size that was handed out at `ms`. Requires: there is one.
  const Sampled* NearestAtTime(const Key& object, int64_t ms) const;

  ScratchMemory& memory_;
  // In the order of Before after Sort.
  Sampled* samples_ = nullptr;
  size_t size_ = 0;
};

inline bool SampledSites::Reserve(size_t n) {
  samples_ = memory_.AllocateArray<Sampled>(n);
  return samples_ != nullptr;
}

inline void SampledSites::Sort() {
  std::sort(samples_, samples_ + size_,
            [](const Sampled& a, const Sampled& b) { return Before(a.key, b.key); });
}

inline const SampledSites::Sampled* SampledSites::FirstFrom(const Key& key) const {
  return std::lower_bound(samples_, samples_ + size_, key,
                          [](const Sampled& s, const Key& p) { return Before(s.key, p); });
}

inline const SampledSites::Sampled* SampledSites::NearestAtTime(const Key& object,
                                                                int64_t ms) const {
  const auto same = [&](const Sampled* s) {
    return s->key.object_bytes == object.object_bytes && s->key.handed_out_ms == ms;
  };
  const Sampled* const after = FirstFrom({object.object_bytes, ms, object.address});
  const bool has_after = after < samples_ + size_ && same(after);
  if (after == samples_ || !same(after - 1)) return after;
  if (!has_after) return after - 1;
  return Distance(after[-1].key.address, object.address) <=
                 Distance(after->key.address, object.address)
             ? after - 1
             : after;
}

inline const void* SampledSites::Nearest(const Key& object) const {
  const auto same_size = [&](const Sampled* s) {
    return s->key.object_bytes == object.object_bytes;
  };
  const Sampled* const later = FirstFrom({object.object_bytes, object.handed_out_ms, 0});
  const Sampled* found = nullptr;
  if (later < samples_ + size_ && same_size(later)) {
    found = NearestAtTime(object, later->key.handed_out_ms);
  }
  if (later > samples_ && same_size(later - 1)) {
    const Sampled* const earlier = NearestAtTime(object, later[-1].key.handed_out_ms);
    // Of two at the same distance, the later one is nearer, since the object is younger than its
    // span.
    if (found == nullptr || TimeDistance(earlier->key.handed_out_ms, object.handed_out_ms) <
                                TimeDistance(found->key.handed_out_ms, object.handed_out_ms)) {
      found = earlier;
    }
  }
  return found == nullptr ? nullptr : found->sample;
}

}  // namespace tcmalloc
