// SPDX-License-Identifier: BSD-3-Clause
// Something that is to be done in a forked child, but only in one that goes on to live: by the
// first slow path of an allocation after some time. Children that are about to exec never get
// there. Nothing is done inside the allocator's locks, but it is done inside malloc: it may
// allocate.
//
// Thread safety: any; Schedule by the one thread that a child begins with, or by who is being
// revived, for another try. Cost: one load.
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
    // With release: who takes the time sees the function.
    at_ms_.store(at_ms, std::memory_order_release);
  }
  bool is_scheduled() const { return at_ms_.load(std::memory_order_relaxed) != 0; }
  // Does it once, when it is time.
  void ReviveWhenDue() {
    int64_t at_ms = at_ms_.load(std::memory_order_acquire);
    if (at_ms == 0 || CoarseMilliseconds() < at_ms) return;
    if (at_ms_.compare_exchange_strong(at_ms, 0, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      revive_();
    }
  }

 private:
  // CoarseMilliseconds; 0 for nothing.
  std::atomic<int64_t> at_ms_{0};
  void (*revive_)() = nullptr;
};

}  // namespace tcmalloc
