// SPDX-License-Identifier: BSD-3-Clause
// How close to its limits the memory in use is, as a level. Memory limits (memory_limit.h) and
// memory pressure (instruments/pressure/policy.h) share this decision; each decides what to do at a
// level. Pure functions.
//
// Levels. Bounds are listed from the mildest to the most severe. Level n is entered when the memory
// in use is above the nth bound's limit, and left when it is below that by the margin, so a value
// that wavers around a limit stays at one level. Level 0 is below all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// In bytes.
struct MemoryBound {
  static constexpr uint64_t kNoLimit = UINT64_MAX;

  uint64_t limit = kNoLimit;  // the most that may be in use below the level
  uint64_t in_use = 0;        // the memory that the limit bounds
  uint64_t more = 0;          // requested in addition
  uint64_t margin = 0;

  constexpr bool IsEntered() const { return IsAbove(0); }
  // The level stays entered.
  constexpr bool IsHeld() const { return IsAbove(margin); }

 private:
  // `in_use` + `more` + `slack` is above the limit. The sum may overflow, so it is not computed.
  constexpr bool IsAbove(uint64_t slack) const {
    if (limit == kNoLimit) return false;
    if (in_use > limit) return true;
    const uint64_t room = limit - in_use;
    return more > room || slack > room - more;
  }
};

// The level that follows `level`.
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
