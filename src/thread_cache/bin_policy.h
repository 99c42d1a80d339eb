// SPDX-License-Identifier: BSD-3-Clause
// How many objects a thread cache's bin of one size class may hold (its limit), how many move at
// once, and what a garbage collection takes from it. Pure functions.
//
// Rule (slow start with overages, after the TCMalloc document). A bin starts with room for a few
// objects, at least a line batch. When the bin is empty, it fetches as many objects as its limit
// allows, up to a batch; the limit doubles up to a batch, then grows by a batch. When the bin is
// full, a limit up to a batch doubles. No object leaves while the cache may grow and the bin has no
// more objects than the thread fetched, since these are the thread's own. Nothing shows that the
// thread will allocate more than that, so frees fill a bin further only up to a bound
// (FreesMayFill). At a batch or more the bin returns as many objects as it would fetch. A limit
// above a batch counts an overage, and shrinks by a batch after some of them (kMaxOverages). So a
// bin that is used more for freeing than for allocating grows only to the size at which all of it
// moves at once. Above two batches half the limit moves, so the objects that stay are copied less
// often. While the budget is short, half of any limit moves.
//
// Below a batch the limit doubles, while the document adds one object at a time: a call of a
// central list costs a few nanoseconds per object, and a lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/size_classes.h"
#include "base/tuned.h"

namespace tcmalloc {

// The most bytes of a bin, if its objects have at most kLongObjectBytes. Last-in-first-out reuse
// mixes the order of addresses, which the bitmaps of the central free list restore, so bins are
// small. With 4 MiB, containers is a quarter slower, and a producer/consumer takes fifteen times
// the memory. With 256 KiB, rptest is 14 % faster, but containers 5 to 9 % and lru 4 to 10 % slower
// (decision 0009).
inline constexpr size_t kMaxBinBytes = Tuned(128_KiB, 32_KiB, 1_MiB);
// If fewer objects than this fit into kMaxBinBytes, a bin may hold this many objects, but at most
// twice kMaxBinBytes. 128 KiB are too few for a thread whose use of a class goes up and down. This
// lowered rptest from 106 to 90 million instructions (decision 0009).
inline constexpr size_t kMinMaxObjects = Tuned(64, 2, 256);
// The most bytes of a bin of objects above kLongObjectBytes. A lock waits until the CPU has written
// the lines that the thread touched before, so refills of long objects should be rare. Two threads
// that hold and free objects of 32 to 64 KiB execute 900 instructions for each object with 512 KiB,
// and 290 with 2 MiB. One thread that holds 24 MiB executes 600 with 2 MiB, and 280 with 4 MiB
// (decision 0049).
inline constexpr size_t kMaxBinBytesOfLong = Tuned(4_MiB, kMaxBinBytes, 16_MiB);
inline constexpr size_t kLongObjectBytes = Tuned(8_KiB, 8_KiB, kMaxSmallSize);
// The most objects: a BinArray of 16 KiB has room for them. A multiple of 8, so of every line
// batch.
inline constexpr size_t kMaxBinObjects = 2040;
static_assert(kMaxBinObjects % 8 == 0);
// A new bin may hold as many objects as fit into kInitialBinBytes, but at least 1, and at most
// kInitialBinObjects or a line batch, whichever is more. Not measured.
inline constexpr size_t kInitialBinBytes = Tuned(4_KiB, 1_KiB, 64_KiB);
inline constexpr size_t kInitialBinObjects = Tuned(4, 1, 64);
// When a bin with a limit of a batch or more runs empty, its limit grows by this many batches, as
// in the TCMalloc document.
inline constexpr size_t kGrowthBatches = Tuned(1, 1, 4);
// The most objects that move over the stack at once: a thread with a stack of 16 KiB can afford
// 2 KiB of pointers. Larger returns move in pieces (decision 0034).
inline constexpr size_t kMaxMoveObjects = 2 * kMaxBatchSize;
// How many times a bin with a limit above a batch may be full before its limit shrinks by a batch,
// as in the TCMalloc document. It takes 4 bits of a BinArray.
inline constexpr uint8_t kMaxOverages = Tuned(3, 0, 14);
// While thread caches claim their whole budget, a collection leaves a bin as it is if the bin
// claims little: at most this part of its cache's limit, divided by 3 at the second collection in a
// row that finds the bin unused, by 7 at the third, and by about twice as much at each later one.
// So the cost of a bin's refills is about proportional to the bytes that it claims. With 400
// threads that take turns, 1000 pairs need 30 refills if no unused bin is spared, and 22 with an
// earlier rule that spared bins for about as long (decision 0048).
inline constexpr size_t kSparedPart = Tuned(4, 2, 64);
// A size class of kLateBytes or more gets a bin in a thread cache only after kLateUses allocations
// or frees. Most programs have few such objects, and only once (vectors and hash tables that grow
// to their final size). A bin would keep one or two objects of each such class in the cache for
// good. It would also fetch objects adjacent to one that grows: without this rule vector-growth
// takes 305 MiB instead of 247. With kUncachedBytes this rule lowered the peak of python objects.py
// from 38,056 to 36,890 KiB (decision 0009).
inline constexpr size_t kLateBytes = Tuned(32_KiB, 4_KiB, kMaxSmallSize);
inline constexpr uint8_t kLateUses = Tuned(16, 0, 100);
// The most collections that are counted since a bin ran empty or full: 4 bits of a BinArray.
inline constexpr uint8_t kMaxUnusedFor = 15;

namespace bin_policy {

constexpr size_t MaxLimit(SizeClass c) {
  const size_t line = kSizeClasses.line_objects(c);
  const size_t size = kSizeClasses.size(c);
  const bool is_long = size > kLongObjectBytes;
  size_t objects = (is_long ? kMaxBinBytesOfLong : kMaxBinBytes) / size;
  if (!is_long && objects < kMinMaxObjects) {
    objects = std::min(2 * kMaxBinBytes / size, kMinMaxObjects);
  }
  return std::clamp<size_t>(objects, 2, kMaxBinObjects) / line * line;
}

// Objects that a bin fetches or returns at once, if its limit allows.
constexpr size_t Batch(SizeClass c) { return std::min(kSizeClasses.batch_size(c), MaxLimit(c)); }

// The limit of a new bin.
constexpr size_t InitialLimit(SizeClass c) {
  return std::clamp<size_t>(kInitialBinBytes / kSizeClasses.size(c), 1,
                            std::max(size_t{kInitialBinObjects}, kSizeClasses.line_objects(c)));
}

// The capacity of a bin's new array: the next doubling of the limit must not need another array.
constexpr size_t CapacityFor(SizeClass c, size_t limit) {
  return std::max(limit, std::min(limit * 2, MaxLimit(c)));
}

// The limit after the bin ran empty.
constexpr size_t LimitAfterUnderflow(SizeClass c, size_t limit) {
  const size_t batch = Batch(c);
  if (limit == 0) return InitialLimit(c);
  return std::min(limit < batch ? std::min(limit * 2, batch) : limit + kGrowthBatches * batch,
                  MaxLimit(c));
}

// A class gets a bin after this many allocations or frees.
constexpr uint8_t UsesWithoutBin(SizeClass c) {
  return kSizeClasses.size(c) < kLateBytes ? 0 : kLateUses;
}

// Whether a full bin may grow although the thread did not fetch as many objects as the bin then
// holds. Also whether a free makes a bin, with its first limit; otherwise the class gets a bin when
// the thread allocates. `most_bytes` is CacheBudget::MaxBinBytesOfFrees.
constexpr bool FreesMayFill(SizeClass c, size_t limit, size_t most_bytes) {
  return 2 * limit * kSizeClasses.size(c) <= most_bytes;
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
  return std::clamp<size_t>(MoveCount(c, limit), 1, kMaxMoveObjects);
}
constexpr size_t RefillCountWithoutGrowth(SizeClass c, size_t limit) {
  return std::clamp<size_t>(MoveCountWithoutGrowth(c, limit), 1, kMaxMoveObjects);
}

struct Overflow {
  size_t release;  // objects to return, unless the limit grew
  size_t limit;
  uint8_t overages;
};

// Decides what to do with a full bin. `may_grow`: its objects are the thread's own, or
// FreesMayFill.
constexpr Overflow DecideOverflow(SizeClass c, size_t limit, uint8_t overages, bool may_grow) {
  const size_t batch = Batch(c);
  const size_t release = MoveCount(c, limit);
  if (limit <= batch) {
    return {release, may_grow ? std::min(limit * 2, batch) : limit, overages};
  }
  if (overages < kMaxOverages) return {release, limit, static_cast<uint8_t>(overages + 1)};
  // The objects that stay and the one that is being freed must fit.
  const size_t shrunk = std::max(limit - batch, batch);
  return {limit - release < shrunk ? release : std::min(release + batch, limit), shrunk, 0};
}

struct BinUse {
  size_t count;
  size_t limit;
  // Collections since the bin last ran empty or full, not counting this one.
  uint8_t unused_for;
};

// Whether a collection spares the bin. `max_bytes` is the limit of the bin's cache; or 0 if the
// budget is not short: then a collection spares only bins in use. A refill costs about the same
// however many bytes it moves, so a bin of few bytes may stay although it is seldom used.
constexpr bool IsSpared(SizeClass c, const BinUse& use, size_t max_bytes) {
  const uint64_t doubled = (uint64_t{1} << use.unused_for) - 1;
  return doubled * use.limit * kSizeClasses.size(c) <= max_bytes / kSparedPart;
}

struct Collection {
  size_t release;  // objects to return
  size_t limit;    // 0: return the bin's array as well
};

// What a garbage collection takes from a bin that it does not spare: half of the objects and half
// of the limit. It is not known how many of the objects were needed since the bin last ran empty or
// full. If a needed object is among the half that leaves, little is lost; and the bin of a class
// that is no longer used becomes empty within a few collections. Limits shrink because a cache
// claims the bytes of its limits, not of its objects.
constexpr Collection DecideCollection(SizeClass c, const BinUse& use) {
  const size_t line = kSizeClasses.line_objects(c);
  const size_t release = use.count > 1 ? use.count / 2 : use.count;
  // The number of objects left is rounded up to whole line batches, as all limits are.
  const size_t left = (use.count - release + line - 1) / line * line;
  return {release, std::max(use.limit / 2 / line * line, left)};
}

}  // namespace bin_policy

}  // namespace tcmalloc
