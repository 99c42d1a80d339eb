// SPDX-License-Identifier: BSD-3-Clause
// Patience: how long a reader tries again while a target changes.
#pragma once

#include <chrono>
#include <thread>

#include "image/image.h"

namespace cli {

// How long a target runs before it is stopped again, if it was in the middle of a change or had no
// thread that can be stopped. How often that happens depends on how busy the machine is, so the
// number of stops has no bound.
constexpr auto kStopPause = std::chrono::milliseconds(1);

class Patience {
 public:
  bool IsOver() const { return std::chrono::steady_clock::now() > end_; }

 private:
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(20);
};

// Reads a target, until it was not in the middle of a change: then `read` throws BadImage. Between
// two attempts the target runs.
template <typename Read>
auto ReadWhileItChanges(const Read& read) {
  for (const Patience patience;; std::this_thread::sleep_for(kStopPause)) {
    try {
      return read();
    } catch (const NotPublished&) {
      throw;
    } catch (const BadImage&) {
      if (patience.IsOver()) throw;
    }
  }
}

}  // namespace cli
