// SPDX-License-Identifier: BSD-3-Clause
// AgeBucket: a coarse age, so that leaked objects with one cause fall into one bucket. A pure
// function of a duration.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

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

}  // namespace tcmalloc
