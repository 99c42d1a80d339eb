// SPDX-License-Identifier: BSD-3-Clause
// Revival: a function that runs once in a forked child that keeps running. The first allocation on
// the slow path after some time calls it. Children that exec soon never call it. It runs inside
// malloc, but without the allocator's locks, so it may allocate.
//
// Thread safety: any; but only the single thread with which a child begins may call Schedule, or
// the function itself, for another try. Cost: one load.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/clock.h"

namespace tcmalloc {

class Revival {
 public:
  constexpr Revival() = default;

  void Schedule(int64_t at_ms, void (*revive)()) {
    revive_ = revive;
    // Release order: a thread that loads the time with acquire sees the function.
    at_ms_.store(at_ms, std::memory_order_release);
  }
  bool is_scheduled() const { return at_ms_.load(std::memory_order_relaxed) != 0; }
  // Calls the function once, when it is due.
  void ReviveWhenDue() {
    int64_t at_ms = at_ms_.load(std::memory_order_acquire);
    if (at_ms == 0 || CoarseMilliseconds() < at_ms) return;
    if (at_ms_.compare_exchange_strong(at_ms, 0, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      revive_();
    }
  }

 private:
  // The time of the call (CoarseMilliseconds); 0 if no call is scheduled.
  std::atomic<int64_t> at_ms_{0};
  void (*revive_)() = nullptr;
};

}  // namespace tcmalloc
