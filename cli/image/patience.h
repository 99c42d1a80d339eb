// SPDX-License-Identifier: BSD-3-Clause
// Patience: how often and how long a reader tries again while a target changes. A damaged heap can
// make each try long.
#pragma once

#include <chrono>

namespace cli {

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
