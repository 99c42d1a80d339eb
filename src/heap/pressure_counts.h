// SPDX-License-Identifier: BSD-3-Clause
// What was done about memory pressure, for the statistics. All zero in the minimal library, which
// does not listen. Thread safety: any.
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

  // Sources that are listened to, and such as were wanted and could not be opened or broke.
  std::atomic<unsigned> sources{0};
  std::atomic<unsigned> sources_failed{0};
  // What the sources told.
  SharedCounter events;
  // By level: how often something was done, and how much it moved.
  std::array<SharedCounter, kLevels> actions;
  std::array<SharedCounter, kLevels> moved_bytes;
};

}  // namespace tcmalloc
