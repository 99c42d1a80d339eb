// SPDX-License-Identifier: BSD-3-Clause
// How near to its limits memory is, as a level: the decision that memory limits (memory_limit.h)
// and memory pressure (tools/pressure/policy.h) have in common. What is done at a level is theirs.
// Pure.
//
// Levels. Bounds are listed from the one that asks for the least. The nth level is entered when
// what is in use is above the nth bound's limit, and left when it is below that by the margin: what
// wavers around a limit is at the same level all the time. Level 0 is below all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// In bytes.
struct MemoryBound {
  static constexpr uint64_t kNoLimit = UINT64_MAX;

  uint64_t limit = kNoLimit;  // the most that may be in use below the level
  uint64_t in_use = 0;        // of what the limit is about
  uint64_t more = 0;          // what somebody asks for on top of it
  uint64_t margin = 0;

  constexpr bool IsEntered() const { return IsAbove(0); }
  // By who is at the level.
  constexpr bool IsHeld() const { return IsAbove(margin); }

 private:
  // `in_use`, `more` and `slack` together are above the limit; their sum may not fit.
  constexpr bool IsAbove(uint64_t slack) const {
    if (limit == kNoLimit) return false;
    if (in_use > limit) return true;
    const uint64_t room = limit - in_use;
    return more > room || slack > room - more;
  }
};

// The level that follows on `level`.
template <size_t kLevels>
constexpr int NextMemoryLevel(const std::array<MemoryBound, kLevels>& bounds, int level) {
  for (size_t n = kLevels; n > 0; --n) {
    const MemoryBound& bound = bounds[n - 1];
    const bool was_entered = static_cast<size_t>(level) >= n;
    if (was_entered ? bound.IsHeld() : bound.IsEntered()) return static_cast<int>(n);
  }
  return 0;
}

}  // namespace tcmalloc
