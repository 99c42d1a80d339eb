// SPDX-License-Identifier: BSD-3-Clause
// Patience: how often and how long a reader tries again while a target changes. With a damaged heap
// each attempt may take long.
#pragma once

#include <chrono>

namespace cli {

// How often a target is stopped again if it is in the middle of a change, or has no thread that can
// be stopped; and how long it runs between two stops.
constexpr int kStopTries = 100;
constexpr auto kStopPause = std::chrono::milliseconds(1);

class Patience {
 public:
  explicit Patience(int tries) : tries_(tries) {}

  bool IsOver(int tries) const {
    return tries >= tries_ || std::chrono::steady_clock::now() > end_;
  }

 private:
  const int tries_;
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(20);
};

}  // namespace cli
