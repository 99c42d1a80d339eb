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
// the limit.
//
// Excess. A bin claims the bytes that it may hold. While nothing is unclaimed, a cache is charged
// only for the bytes that its bins hold, up to a bound (Excess), since bins are seldom full at
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

#include "base/tuned.h"
#include "base/units.h"

namespace tcmalloc {

// The bytes that a new thread cache may claim. 256 KiB: containers 5 to 9 % slower (decision 0009).
inline constexpr size_t kInitialCacheBytes = Tuned(64_KiB, 16_KiB, 1_MiB);
// The unit of all changes: bytes stolen at once, and the smallest raise.
inline constexpr size_t kCacheStepBytes = kInitialCacheBytes;
// The most bytes by which the limit of a thread cache grows in one step. The limit grows by
// unclaimed bytes in steps of half of itself, up to this. rptest: 170 collections with steps of
// kCacheStepBytes, 31 with these (decision 0009).
inline constexpr size_t kMaxCacheStepBytes = Tuned(1_MiB, kCacheStepBytes, 16_MiB);
// If a thread has fetched fewer objects than its bin holds, frees fill the bin to at most this part
// of the thread's equal share of the budget of all caches. Without this rule 400 threads that free
// objects of 4 to 60 KiB, which ten others allocate, keep 45 MiB in all caches (decision 0056). A
// part of 8 has not been measured.
inline constexpr size_t kFreesPart = Tuned(8, 1, 64);
// While thread caches claim their whole budget, a cache may exceed its limit by the bytes that it
// claims and does not hold, but by at most kMaxUnfilledBytes, and at most kMaxUnfilledTimes its
// limit. A bin must hold what a burst of frees brings and what the next burst takes; between bursts
// it is half full. 100 threads that take turns: 49 refills for 1000 pairs with 0, 18 with 128 KiB,
// 12 with 256 KiB, which holds a third more (decision 0041). The peak of 100 to 400 threads is the
// same with 128 and 256 KiB (decision 0048).
inline constexpr size_t kMaxUnfilledBytes = Tuned(256_KiB, 0, 1_MiB);
inline constexpr size_t kMaxUnfilledTimes = Tuned(4, 0, 4);
// While thread caches claim their whole budget, a cache makes its next collection only after it has
// fetched and returned this many times its limit, in bytes. With 1 instead of 2, 100 threads that
// take turns need 49 refills for 1000 pairs instead of 12 (decision 0048).
inline constexpr size_t kShortBackoff = Tuned(2, 1, 16);

class CacheBudget {
 public:
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
    unclaimed_ -= kInitialCacheBytes;
    return kInitialCacheBytes;
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
    size_t step = *limit < kInitialCacheBytes ? kInitialCacheBytes - *limit : kCacheStepBytes;
    if (unclaimed_ < static_cast<int64_t>(step)) {
      if (*limit + step > LowerBound()) return false;
    } else if (*limit >= kInitialCacheBytes) {
      const size_t wanted = std::clamp(*limit / 2, kCacheStepBytes, kMaxCacheStepBytes);
      step = std::min(wanted, static_cast<size_t>(unclaimed_)) / kCacheStepBytes * kCacheStepBytes;
    }
    unclaimed_ -= static_cast<int64_t>(step);
    *limit += step;
    return true;
  }

  // Lowers a limit to an equal share of the total, while the limits together exceed the total.
  void LowerToShare(size_t* limit) {
    const size_t share = Share();
    if (unclaimed_ >= 0 || *limit <= share) return;
    unclaimed_ += static_cast<int64_t>(*limit - share);
    *limit = share;
  }

  // Moves a step from another cache's limit; false when that would fall below the lower bound.
  bool TrySteal(size_t* limit, size_t* victim) const {
    if (*victim < LowerBound() + kCacheStepBytes) return false;
    *victim -= kCacheStepBytes;
    *limit += kCacheStepBytes;
    return true;
  }

  // No limit is lowered below this.
  size_t LowerBound() const {
    const size_t share = total_ / std::max<size_t>(caches_, 1);
    return std::max(kInitialCacheBytes, share < min_per_cache_ ? min_per_cache_ : 0);
  }

  // The most bytes to which frees of objects that the thread did not fetch fill a bin.
  size_t MaxBinBytesOfFrees() const { return Share() / kFreesPart; }

  // How far a cache's claims may exceed its limit while nothing is unclaimed. `unfilled` is the
  // number of bytes that it claims and does not hold.
  static constexpr size_t Excess(size_t limit, size_t unfilled) {
    return std::min({unfilled, kMaxUnfilledBytes, kMaxUnfilledTimes * limit});
  }

  // The unclaimed rest of the total; negative when the limits together exceed the total.
  int64_t unclaimed() const { return unclaimed_; }

 private:
  // What each cache may claim if all have the same limit.
  size_t Share() const { return std::max(LowerBound(), total_ / std::max<size_t>(caches_, 1)); }

  size_t total_;
  size_t min_per_cache_ = kInitialCacheBytes;
  size_t caches_ = 0;
  int64_t unclaimed_;
};

}  // namespace tcmalloc
