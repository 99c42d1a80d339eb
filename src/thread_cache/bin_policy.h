// SPDX-License-Identifier: BSD-3-Clause
// How many objects a thread cache's bin of one size class may hold (its limit), how many move at
// once, and what a garbage collection takes from it. Pure functions.
//
// Rule (slow start with overages, after the TCMalloc document). A bin starts with room for a few
// objects, at least a line batch. When empty, it fetches as many objects as its limit says, up to a
// batch; the limit doubles up to a batch, then grows by a batch. When full, a limit below a batch
// doubles, and no object leaves while the cache may grow, if the thread fetched as many objects:
// they are its own. Nothing shows that the thread will allocate more than that, so frees fill a bin
// further only within narrow bounds (FreesMayFill). At a batch or more the bin returns as many
// objects as it would fetch. A limit above a batch counts an overage, and shrinks by a batch after
// some of them (Tuning::Bins::max_overages). So a bin that is used more for freeing than for
// allocating grows only to the size at which all of it moves at once. Above two batches half the
// limit moves, so the objects that stay are copied less often. While the budget is short, half of
// any limit moves.
//
// Unlike the document, which adds one object at a time below a batch, the limit doubles: a central
// list costs a few nanoseconds per object, and a lock per call.
//
// The numbers and their reasons: Tuning::Bins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/size_classes.h"
#include "base/tuning.h"

namespace tcmalloc::bin_policy {

inline constexpr Tuning::Bins kRules = kTuning.bins;

constexpr size_t MaxLimit(SizeClass c) {
  const size_t line = kSizeClasses.line_objects(c);
  const size_t size = kSizeClasses.size(c);
  const bool is_long = size > kRules.long_bytes;
  size_t objects = (is_long ? kRules.max_bytes_of_long : kRules.max_bytes) / size;
  if (!is_long && objects < kRules.min_max_objects) {
    objects = std::min(2 * kRules.max_bytes / size, kRules.min_max_objects);
  }
  return std::clamp<size_t>(objects, 2, kRules.max_objects) / line * line;
}

// Objects that a bin fetches or returns at once, if its limit allows.
constexpr size_t Batch(SizeClass c) { return std::min(kSizeClasses.batch_size(c), MaxLimit(c)); }

// The limit of a new bin.
constexpr size_t InitialLimit(SizeClass c) {
  return std::clamp<size_t>(kRules.initial_bytes / kSizeClasses.size(c), 1,
                            std::max(size_t{kRules.initial_objects}, kSizeClasses.line_objects(c)));
}

// The capacity of a bin's new array: the next doubling of the limit must not need another array.
constexpr size_t CapacityFor(SizeClass c, size_t limit) {
  return std::max(limit, std::min(limit * 2, MaxLimit(c)));
}

// The limit after the bin ran empty.
constexpr size_t LimitAfterUnderflow(SizeClass c, size_t limit) {
  const size_t batch = Batch(c);
  if (limit == 0) return InitialLimit(c);
  return std::min(
      limit < batch ? std::min(limit * 2, batch) : limit + kRules.growth_batches * batch,
      MaxLimit(c));
}

// A class gets a bin after this many allocations or frees.
constexpr uint8_t AllocationsWithoutBin(SizeClass c) {
  return kSizeClasses.size(c) < kRules.late_bytes ? 0 : kRules.late_uses;
}
constexpr uint8_t FreesWithoutBin(SizeClass c) {
  return kSizeClasses.size(c) < kRules.late_bytes ? kRules.frees_before_bin : kRules.late_uses;
}

// Whether a bin may get this limit though the thread did not fetch as many objects. The cache
// claims `claimed_bytes`, and caches may claim `frees_share` for such objects
// (CacheBudget::FreesShare).
constexpr bool FreesMayFill(SizeClass c, size_t limit, size_t claimed_bytes, size_t frees_share) {
  const size_t bytes = limit * kSizeClasses.size(c);
  return bytes <= kRules.max_bytes_of_frees || claimed_bytes + bytes <= frees_share;
}

// Whether frees alone give the class a bin. If there is no room for twice its first limit, it gets
// one when the thread allocates.
constexpr bool FreesMakeBin(SizeClass c, size_t claimed_bytes, size_t frees_share) {
  return FreesMayFill(c, 2 * InitialLimit(c), claimed_bytes, frees_share);
}

// Objects that move when a bin with this limit runs empty or full.
constexpr size_t MoveCount(SizeClass c, size_t limit) {
  const size_t batch = Batch(c);
  return limit < 2 * batch ? std::min(limit, batch) : limit / 2 / batch * batch;
}

// As MoveCount, when the budget does not let the bin grow. The result is half of the limit, in
// whole line batches: such a bin runs empty and full in turns, and is furthest from both when it is
// half full.
constexpr size_t MoveCountWithoutGrowth(SizeClass c, size_t limit) {
  const size_t line = kSizeClasses.line_objects(c);
  return std::min(MoveCount(c, limit), std::max(limit / 2 / line, size_t{1}) * line);
}

// Objects to fetch for an empty bin, including the one that the caller allocates.
constexpr size_t RefillCount(SizeClass c, size_t limit) {
  return std::clamp<size_t>(MoveCount(c, limit), 1, kRules.max_move_objects);
}
constexpr size_t RefillCountWithoutGrowth(SizeClass c, size_t limit) {
  return std::clamp<size_t>(MoveCountWithoutGrowth(c, limit), 1, kRules.max_move_objects);
}

struct Overflow {
  size_t release;  // objects to return
  size_t limit;
  uint8_t overages;
};

// Decides what to do with a full bin. `may_grow`: its objects are the thread's own, or FreesMayFill
// is true of the double limit.
constexpr Overflow DecideOverflow(SizeClass c, size_t limit, uint8_t overages, bool may_grow) {
  const size_t batch = Batch(c);
  const size_t release = MoveCount(c, limit);
  if (limit <= batch) {
    return {release, may_grow ? std::min(limit * 2, batch) : limit, overages};
  }
  if (overages < kRules.max_overages) return {release, limit, static_cast<uint8_t>(overages + 1)};
  // The objects that stay and the one that is being freed must fit.
  const size_t shrunk = std::max(limit - batch, batch);
  return {limit - release < shrunk ? release : std::min(release + batch, limit), shrunk, 0};
}

// The objects that a bin fetched and did not return, after `objects` more came from the central
// cache (or, when negative, went there). Below zero: the thread frees objects of other threads.
// Values far below zero are clamped, so that a thread that begins to allocate is soon recognised.
constexpr int64_t BalanceAfter(SizeClass c, int64_t balance, int64_t objects) {
  return std::max(balance + objects, -kRules.max_batches_owed * static_cast<int64_t>(Batch(c)));
}

struct BinUse {
  size_t count;
  size_t limit;
  // Collections since the bin last ran empty or full, not counting this one.
  uint8_t unused_for;
  // How many of them it may take.
  uint8_t patience;
};

// While nothing is unclaimed, a bin with this limit, in a cache that may claim `max_bytes`, keeps
// its objects for this many collections in which it ran neither empty nor full. A refill costs
// about the same whatever it moves, so a bin of few bytes may stay although it is seldom used.
constexpr uint8_t Patience(SizeClass c, size_t limit, size_t max_bytes) {
  const size_t claim = std::max<size_t>(limit * kSizeClasses.size(c), 1);
  return static_cast<uint8_t>(
      std::min<size_t>(max_bytes / kRules.patience_part / claim, kRules.max_patience));
}

struct Collection {
  size_t release;  // objects to return
  size_t limit;    // 0: return the bin's array as well
};

// What a garbage collection takes from a bin: half of the objects and half of the limit of a bin
// that ran neither empty nor full for longer than its patience. It is not known how many of its
// objects were needed meanwhile. Half makes a mistake cheap, and a class that is no longer used
// drains within a few collections. Limits shrink because a cache claims the bytes of its limits,
// not of its objects.
constexpr Collection DecideCollection(SizeClass c, const BinUse& use) {
  if (use.unused_for <= use.patience) return {0, use.limit};
  const size_t line = kSizeClasses.line_objects(c);
  const size_t release = use.count > 1 ? use.count / 2 : use.count;
  // The number of objects left is rounded up to whole line batches, as all limits are.
  const size_t left = (use.count - release + line - 1) / line * line;
  return {release, std::max(use.limit / 2 / line * line, left)};
}

}  // namespace tcmalloc::bin_policy
