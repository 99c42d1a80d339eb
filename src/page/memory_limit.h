// SPDX-License-Identifier: BSD-3-Clause
// MemoryLimits: how large the heap may become, and what follows from that. Pure decisions; nothing
// here releases memory. How near the heap is to its limits is NextMemoryLevel's to say
// (memory_level.h), as it is for memory pressure.
//
// What counts ("backed") is what may have memory behind it: what came from the system and was not
// given back, and the allocator's own records.
//
// The hard limit is never exceeded, but by records: what would exceed it fails once nothing is left
// that could be given back. The soft limit asks for free memory to be given back first; the heap
// grows nevertheless, and an allocation does a bounded amount of that work.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"
#include "page/memory_level.h"

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

// What is released beyond what is needed.
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

// Whether it is above the soft limit; `was_above`: or was, and is not well below it again.
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
    kReleaseThenGrow,  // at the soft limit: release, and ask no more about it for this request
    kReleaseOrFail,    // at the hard limit: release and ask again; fail when nothing went
    kFail,             // larger than the hard limit: nothing helps
  };
  Action action = Action::kGrow;
  size_t release_bytes = 0;
};

// Whether `request_bytes` that have nothing behind them may be taken. `soft_served`: this request
// has released for the soft limit already. For the soft limit no more is released than the request
// and some slack: what was above the limit before is not this request's to pay for.
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

// Whether memory that is freed goes back at once: above the soft limit, as soon as there is enough
// of it to be worth a system call.
constexpr bool ReleasesFreedMemory(const MemoryLimits& limits, size_t backed_bytes,
                                   size_t free_bytes) {
  return IsAboveSoftLimit(limits.soft_bytes, backed_bytes, false) &&
         free_bytes >= LimitSlack(limits.soft_bytes);
}

}  // namespace tcmalloc
