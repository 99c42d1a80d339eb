// SPDX-License-Identifier: BSD-3-Clause
// CacheBudget: how large each thread cache may be. Arithmetic alone: it knows no cache, the caller
// hands it their limits.
//
// Rule (after the TCMalloc document). Every cache starts with the same limit, whatever the others
// have. Each of its garbage collections tries to add a step: from what the caches together may
// still have, else from another cache, whose limit is lowered by as much. So busy threads end with
// large caches and idle ones with small ones. The total is soft: a cache whose limit was lowered
// gives objects up at its own next collection.
//
// Departure from the document, whose steps are all equal: what nobody has is given out in steps of
// half the limit. The numbers, and why they are so: Tuning::CacheBudget.
//
// Lower bound. When an equal share of the total would be less than `min_per_cache`, no limit is
// lowered below that, and a smaller one may be raised to it whatever the total says.
//
// Synchronization: the caller's. Bytes throughout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"

namespace tcmalloc {

class CacheBudget {
 public:
  static constexpr Tuning::CacheBudget kRules = kTuning.cache_budget;

  explicit constexpr CacheBudget(size_t total)
      : total_(total), unclaimed_(static_cast<int64_t>(total)) {}

  size_t total() const { return total_; }
  void SetTotal(size_t bytes) {
    unclaimed_ += static_cast<int64_t>(bytes) - static_cast<int64_t>(total_);
    total_ = bytes;
  }
  void SetMinPerCache(size_t bytes) { min_per_cache_ = bytes; }
  size_t min_per_cache() const { return min_per_cache_; }

  // A new cache; returns its limit.
  size_t AddCache() {
    ++caches_;
    unclaimed_ -= kRules.initial_bytes;
    return kRules.initial_bytes;
  }
  // A cache is gone, or needs nothing for a while: its limit is free for others.
  void RemoveCache(size_t limit) {
    --caches_;
    unclaimed_ += static_cast<int64_t>(limit);
  }
  void TakeAll(size_t* limit) {
    unclaimed_ += static_cast<int64_t>(*limit);
    *limit = 0;
  }

  // Raises `*limit` without anyone else's loss; false when that cannot be.
  bool TryRaise(size_t* limit) {
    size_t step = *limit < kRules.initial_bytes ? kRules.initial_bytes - *limit : kRules.step_bytes;
    if (unclaimed_ < static_cast<int64_t>(step)) {
      if (*limit + step > LowerBound()) return false;
    } else if (*limit >= kRules.initial_bytes) {
      const size_t wanted = std::clamp(*limit / 2, kRules.step_bytes, kRules.max_step_bytes);
      step =
          std::min(wanted, static_cast<size_t>(unclaimed_)) / kRules.step_bytes * kRules.step_bytes;
    }
    unclaimed_ -= static_cast<int64_t>(step);
    *limit += step;
    return true;
  }

  // Takes from a limit what is above an equal share of the total, as long as more was given out
  // than there is.
  void LowerToShare(size_t* limit) {
    const size_t share = std::max(LowerBound(), total_ / std::max<size_t>(caches_, 1));
    if (unclaimed_ >= 0 || *limit <= share) return;
    unclaimed_ += static_cast<int64_t>(*limit - share);
    *limit = share;
  }

  // Moves a step from another cache's limit; false when that one has nothing to spare.
  bool TrySteal(size_t* limit, size_t* victim) const {
    if (*victim < LowerBound() + kRules.step_bytes) return false;
    *victim -= kRules.step_bytes;
    *limit += kRules.step_bytes;
    return true;
  }

  // Below this no limit is lowered.
  size_t LowerBound() const {
    const size_t share = total_ / std::max<size_t>(caches_, 1);
    return std::max(kRules.initial_bytes, share < min_per_cache_ ? min_per_cache_ : 0);
  }

  // What the caches may still claim together; negative when they have more than the total.
  int64_t unclaimed() const { return unclaimed_; }

 private:
  size_t total_;
  size_t min_per_cache_ = kRules.min_per_cache_bytes;
  size_t caches_ = 0;
  int64_t unclaimed_;
};

}  // namespace tcmalloc
