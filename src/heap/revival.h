// SPDX-License-Identifier: BSD-3-Clause
// Revival: a function to call once in a forked child that lives on: the first slow path of an
// allocation after some time calls it. Children that exec soon never get there. It runs inside
// malloc, but without the allocator's locks: it may allocate.
//
// Thread safety: any; Schedule only by the single thread with which a child begins, or by the
// function itself, for another try. Cost: one load.
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
    // With release: a thread that loads the time (acquire) sees the function.
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
  // CoarseMilliseconds; 0: nothing is scheduled.
  std::atomic<int64_t> at_ms_{0};
  void (*revive_)() = nullptr;
};

}  // namespace tcmalloc
