// SPDX-License-Identifier: BSD-3-Clause
// MemoryLimits: how large the heap may become, and what happens at its limits. Pure functions;
// nothing here releases memory. NextMemoryLevel (memory_level.h) decides whether the heap is above
// a limit, as it does for memory pressure.
//
// The limits count backed memory: memory from the OS that was not released, and metadata.
//
// The hard limit is never exceeded, except by metadata: a request that would exceed it fails once
// nothing is left to release. At the soft limit, free memory is released before the heap grows. The
// heap grows nevertheless, and one allocation releases a bounded amount.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"
#include "page_heap/memory_level.h"

namespace tcmalloc {

enum class LimitKind : uint8_t { kHard, kSoft };
inline constexpr size_t kNumLimitKinds = 2;
constexpr size_t Index(LimitKind kind) { return static_cast<size_t>(kind); }

inline constexpr size_t kNoLimit = SIZE_MAX;

struct MemoryLimits {
  size_t hard_bytes = kNoLimit;
  size_t soft_bytes = kNoLimit;

  bool any() const { return hard_bytes != kNoLimit || soft_bytes != kNoLimit; }
  size_t& of(LimitKind kind) { return kind == LimitKind::kHard ? hard_bytes : soft_bytes; }
};

// How much more than necessary is released.
constexpr size_t LimitSlack(size_t limit_bytes) {
  return std::min(std::clamp(limit_bytes / kTuning.limits.slack_part,
                             kTuning.limits.min_slack_bytes, kTuning.limits.max_slack_bytes),
                  limit_bytes / 2);
}

constexpr MemoryBound LimitBound(size_t limit_bytes, size_t in_use_bytes, size_t more_bytes,
                                 size_t margin_bytes) {
  return {.limit = limit_bytes == kNoLimit ? MemoryBound::kNoLimit : limit_bytes,
          .in_use = in_use_bytes,
          .more = more_bytes,
          .margin = margin_bytes};
}

// Whether the heap is above the soft limit; with `was_above`, not yet well below it again.
constexpr bool IsAboveSoftLimit(size_t limit_bytes, size_t in_use_bytes, bool was_above) {
  const std::array bounds = {LimitBound(limit_bytes, in_use_bytes, 0, LimitSlack(limit_bytes))};
  return NextMemoryLevel(bounds, was_above ? 1 : 0) > 0;
}

// By how much `backed_bytes` and `more_bytes` together exceed the limit.
constexpr size_t LimitExcess(size_t limit_bytes, size_t backed_bytes, size_t more_bytes) {
  if (limit_bytes == kNoLimit) return 0;
  if (backed_bytes >= limit_bytes) {
    return std::min(backed_bytes - limit_bytes, SIZE_MAX - more_bytes) + more_bytes;
  }
  const size_t room = limit_bytes - backed_bytes;
  return more_bytes > room ? more_bytes - room : 0;
}

struct GrowthDecision {
  enum class Action : uint8_t {
    kGrow,
    kReleaseThenGrow,  // at the soft limit: release, then ignore it for this request
    kReleaseOrFail,    // at the hard limit: release and decide again; fail if nothing was released
    kFail,             // larger than the hard limit
  };
  Action action = Action::kGrow;
  size_t release_bytes = 0;
  // At the hard limit: the request has no other place.
  bool may_fail = true;
};

// Whether `request_bytes` of unbacked memory may be taken. `soft_served`: this request has released
// memory for the soft limit already. For the soft limit it releases no more than its own size and
// some slack: an earlier excess is not its concern.
constexpr GrowthDecision DecideGrowth(const MemoryLimits& limits, size_t backed_bytes,
                                      size_t request_bytes, bool soft_served) {
  using Action = GrowthDecision::Action;
  if (limits.hard_bytes != kNoLimit && request_bytes > limits.hard_bytes) return {Action::kFail, 0};
  const auto with_slack = [](size_t bytes, size_t limit_bytes) {
    const size_t slack = LimitSlack(limit_bytes);
    return bytes > SIZE_MAX - slack ? SIZE_MAX : bytes + slack;
  };
  constexpr int kHard = 2;
  const std::array bounds = {LimitBound(limits.soft_bytes, backed_bytes, request_bytes, 0),
                             LimitBound(limits.hard_bytes, backed_bytes, request_bytes, 0)};
  const int level = NextMemoryLevel(bounds, 0);
  if (level == 0 || (level < kHard && soft_served)) return {};
  if (level == kHard) {
    const size_t excess = LimitExcess(limits.hard_bytes, backed_bytes, request_bytes);
    return {Action::kReleaseOrFail, with_slack(excess, limits.hard_bytes)};
  }
  const size_t excess = LimitExcess(limits.soft_bytes, backed_bytes, request_bytes);
  return {Action::kReleaseThenGrow, with_slack(std::min(excess, request_bytes), limits.soft_bytes)};
}

// Whether freed memory is released at once: above the soft limit, when there is enough of it for a
// system call to pay.
constexpr bool ReleasesFreedMemory(const MemoryLimits& limits, size_t backed_bytes,
                                   size_t free_bytes) {
  return IsAboveSoftLimit(limits.soft_bytes, backed_bytes, false) &&
         free_bytes >= LimitSlack(limits.soft_bytes);
}

}  // namespace tcmalloc
