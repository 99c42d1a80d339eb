// SPDX-License-Identifier: BSD-3-Clause
// Counts of memory pressure events and actions, for the statistics. All zero in the minimal
// library, which does not listen. Thread safety: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "base/counters.h"

namespace tcmalloc {

struct PressureCounts {
  static constexpr size_t kLevels = 3;

  void Acted(int level, size_t bytes) {
    actions[static_cast<size_t>(level) - 1].Add(1);
    moved_bytes[static_cast<size_t>(level) - 1].Add(bytes);
  }

  // The number of sources that the library listens to, and of those that could not be opened or
  // failed later.
  std::atomic<unsigned> sources{0};
  std::atomic<unsigned> sources_failed{0};
  // Events that the sources reported.
  SharedCounter events;
  // By level: the number of actions, and the bytes that they moved.
  std::array<SharedCounter, kLevels> actions;
  std::array<SharedCounter, kLevels> moved_bytes;
};

}  // namespace tcmalloc
