// SPDX-License-Identifier: BSD-3-Clause
// AgeBucket: how long ago, so coarsely that lost objects of one cause fall together. A pure
// function of a length of time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

enum class AgeBucket : uint8_t { kSecond, kTenSeconds, kMinute, kTenMinutes, kHour, kOlder };

constexpr size_t kNumAgeBuckets = 6;

// Buckets end where these begin; the last one has no end.
constexpr std::array<int64_t, kNumAgeBuckets> kAgeBucketStartsMs = {0,      1'000,   10'000,
                                                                    60'000, 600'000, 3'600'000};

// Below zero is as new as can be: two processors' views of a coarse clock may differ by a tick.
constexpr AgeBucket AgeBucketOf(int64_t age_ms) {
  size_t bucket = 0;
  while (bucket + 1 < kNumAgeBuckets && age_ms >= kAgeBucketStartsMs[bucket + 1]) ++bucket;
  return static_cast<AgeBucket>(bucket);
}

// What is in the bucket is at least as old as the first, and less than the second.
constexpr int64_t AgeAtLeastMs(AgeBucket bucket) {
  return kAgeBucketStartsMs[static_cast<size_t>(bucket)];
}
constexpr int64_t AgeBelowMs(AgeBucket bucket) {
  return bucket == AgeBucket::kOlder ? INT64_MAX
                                     : kAgeBucketStartsMs[static_cast<size_t>(bucket) + 1];
}

}  // namespace tcmalloc
