// SPDX-License-Identifier: BSD-3-Clause
// CacheBudget decides how large each thread cache may be. It only computes; the caller passes the
// caches' limits.
//
// Rule (after the TCMalloc document). Every cache starts with the same limit, regardless of the
// others. Each of its garbage collections tries to raise the limit by a step: from the unclaimed
// rest of the total, or else by stealing from another cache, whose limit falls by a step. So busy
// threads get large caches and idle ones small caches. The total is soft: a cache whose limit was
// lowered returns objects at its own next collection.
//
// Unlike in the document, where all steps are equal, unclaimed bytes raise a limit in steps of half
// the limit. The numbers and their reasons: Tuning::CacheBudget.
//
// Headroom. A bin claims the bytes that it may hold. While nothing is unclaimed, a cache is charged
// only for the bytes that its bins hold, up to a bound (Headroom), since bins are seldom full at
// the same time.
//
// Lower bound. When an equal share of the total would be less than `min_per_cache`, no limit is
// lowered below that, and a smaller one may be raised to it even above the total.
//
// Synchronization: the caller synchronizes. All sizes are in bytes.
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

  // Adds a cache; returns its limit.
  size_t AddCache() {
    ++caches_;
    unclaimed_ -= kRules.initial_bytes;
    return kRules.initial_bytes;
  }
  // Removes a cache: its limit becomes unclaimed.
  void RemoveCache(size_t limit) {
    --caches_;
    unclaimed_ += static_cast<int64_t>(limit);
  }
  void TakeAll(size_t* limit) {
    unclaimed_ += static_cast<int64_t>(*limit);
    *limit = 0;
  }

  // Raises `*limit` without lowering another one; false when that is impossible.
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

  // Lowers a limit to an equal share of the total, while the limits together exceed the total.
  void LowerToShare(size_t* limit) {
    const size_t share = std::max(LowerBound(), total_ / std::max<size_t>(caches_, 1));
    if (unclaimed_ >= 0 || *limit <= share) return;
    unclaimed_ += static_cast<int64_t>(*limit - share);
    *limit = share;
  }

  // Moves a step from another cache's limit; false when that would fall below the lower bound.
  bool TrySteal(size_t* limit, size_t* victim) const {
    if (*victim < LowerBound() + kRules.step_bytes) return false;
    *victim -= kRules.step_bytes;
    *limit += kRules.step_bytes;
    return true;
  }

  // No limit is lowered below this.
  size_t LowerBound() const {
    const size_t share = total_ / std::max<size_t>(caches_, 1);
    return std::max(kRules.initial_bytes, share < min_per_cache_ ? min_per_cache_ : 0);
  }

  // Bins grow by frees of objects that the thread did not fetch while its cache claims at most
  // this: a part of an equal share.
  size_t FreesShare() const { return total_ / kRules.frees_part / std::max<size_t>(caches_, 1); }

  // How far a cache's claims may exceed its limit while nothing is unclaimed. `unfilled` is the
  // number of bytes that it claims and does not hold.
  static constexpr size_t Headroom(size_t limit, size_t unfilled) {
    return std::min({unfilled, kRules.max_unfilled_bytes, kRules.unfilled_part * limit});
  }

  // Backoff. A cache counts the consecutive collections that found nothing unclaimed, up to this
  // many.
  static constexpr uint8_t kMostShort =
      kRules.max_backoff_doublings * kRules.collections_per_doubling;
  // How many times the traffic before the next collection doubles after `n` such collections.
  static constexpr int BackoffDoublings(uint8_t n) {
    return (n + kRules.collections_per_doubling - 1) / kRules.collections_per_doubling;
  }

  // The unclaimed rest of the total; negative when the limits together exceed the total.
  int64_t unclaimed() const { return unclaimed_; }

 private:
  friend struct FieldTable;

  size_t total_;
  size_t min_per_cache_ = kRules.min_per_cache_bytes;
  size_t caches_ = 0;
  int64_t unclaimed_;
};

}  // namespace tcmalloc
