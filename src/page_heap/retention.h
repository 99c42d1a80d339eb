// SPDX-License-Identifier: BSD-3-Clause
// Retention: how much memory the allocator may keep beyond the memory in use, and how it is
// divided.
//
// Rule. The total is a part of the memory in use, but no less than a floor, which lets small
// programs run fast; or a number that the user has set. A memory limit and memory pressure lower
// it. Thread caches, inherited caches, kept spans, and free pages each have a fixed share of the
// total, which they read when they decide what to keep. The share of thread caches, and the total
// with it, grows where many threads hold much memory.
//
// The shares bound the memory that is kept on purpose. They do not bound fragmentation (free
// objects in spans that are partly in use), free pages that the program needed within the last
// seconds (ReleasePolicy), or the minimum of each thread cache (CacheBudget::LowerBound).
//
// Thread safety: any. Synchronization: relaxed atomics; the numbers are independent, and a reader
// of an old one keeps a little more or less for a moment. Cost: a few divisions by constants; under
// memory pressure the caller also reads the clock.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/tuned.h"
#include "base/units.h"

namespace tcmalloc {

// Bytes.
struct RetentionShares {
  size_t total = 0;
  size_t thread_caches = 0;
  size_t inherited_caches = 0;
  size_t free_pages = 0;
  size_t kept_spans = 0;  // the rest
};

struct RetentionInputs {
  size_t in_use_bytes = 0;
  size_t thread_caches = 0;       // those of living threads
  size_t set_bytes = 0;           // 0: none was set
  size_t limit_bytes = SIZE_MAX;  // the lowest memory limit; SIZE_MAX: there is none
  int pressure_level = 0;         // 0: none
};

// The retention total is the memory in use / kRetentionPart, but at least kRetentionFloorBytes.
// Thread caches get 32 MiB of the floor, as in gperftools. Not measured.
inline constexpr size_t kRetentionFloorBytes = Tuned(64_MiB, 2_MiB, 1_GiB);
inline constexpr size_t kRetentionPart = Tuned(16, 4, 256);
// The shares of thread caches, of inherited caches, and of free pages in the retention total; empty
// spans that shards keep get the rest. Inherited caches, left by ended threads for new ones, get
// enough for a few thread pools: a thread that lives for 100 objects executes 110,000 instructions
// in the allocator without inheritance, 60,000 with it (decision 0009). An excess of free pages
// below its share is not released. The shares were not measured.
inline constexpr size_t kThreadCachesPart = Tuned(2, 2, 64);
inline constexpr size_t kInheritedPart = Tuned(32, 4, 1024);
inline constexpr size_t kFreePagesPart = Tuned(128, 16, 4096);
// The share of thread caches is at least kPerThreadCacheBytes for each thread, but together at most
// the memory in use / kThreadCachesInUsePart. If a setting gives the total, this does not apply.
// 400 threads that take turns refill 123 bins for 1000 pairs of an allocation and a free with 32
// MiB for all, 21 with 256 KiB each, with a peak that is 1 % higher. 512 KiB: no faster, and the
// peak is 4 % higher (decision 0048).
inline constexpr size_t kPerThreadCacheBytes = Tuned(256_KiB, 64_KiB, 1_MiB);
inline constexpr size_t kThreadCachesInUsePart = Tuned(2, 1, 64);
// The retention total is at most this part of the lowest memory limit. Not measured.
inline constexpr size_t kRetentionLimitPart = Tuned(8, 2, 64);
// After a response to memory pressure, the retention total stays lower for this long: divided by 2
// at level 1, by 4 at level 2, by 8 at level 3. That is longer than the longest wait between two
// responses (instruments/pressure/config.h). Not measured.
inline constexpr int64_t kPressureHoldMs = Tuned(120'000, 1000, 3'600'000);

constexpr RetentionShares ShareRetention(const RetentionInputs& inputs) {
  const bool was_set = inputs.set_bytes != 0;
  const int halvings = inputs.pressure_level;
  const size_t most = inputs.limit_bytes / kRetentionLimitPart >> halvings;
  const size_t total = std::min(
      most, (was_set ? inputs.set_bytes
                     : std::max(kRetentionFloorBytes, inputs.in_use_bytes / kRetentionPart)) >>
                halvings);
  RetentionShares shares = {.total = total,
                            .thread_caches = total / kThreadCachesPart,
                            .inherited_caches = total / kInheritedPart,
                            .free_pages = total / kFreePagesPart};
  shares.kept_spans = total - shares.thread_caches - shares.inherited_caches - shares.free_pages;
  if (was_set) return shares;
  const size_t of_use = inputs.in_use_bytes / kThreadCachesInUsePart;
  // The product does not overflow where addresses have 32 bits.
  const size_t counted = std::min(inputs.thread_caches, of_use / kPerThreadCacheBytes + 1);
  const size_t wanted = std::min(of_use, counted * kPerThreadCacheBytes);
  const size_t of_many = std::min(wanted >> halvings, shares.thread_caches + (most - total));
  if (of_many > shares.thread_caches) {
    shares.total += of_many - shares.thread_caches;
    shares.thread_caches = of_many;
  }
  return shares;
}

// Each time that a shard's kept spans have grown by this much, the shard checks whether all shards
// together keep more than their share of the retention total. It does not do so more often, since
// the sum reads counters that other CPUs write. So each shard may exceed the share by this much of
// each kind. A power of two. Not measured.
inline constexpr size_t kKeptSpansStep = Tuned(128_KiB, 4_KiB, 4_MiB);
static_assert(std::has_single_bit(kKeptSpansStep));

class Retention {
 public:
  // 0: the total follows the memory in use.
  size_t set_bytes() const { return set_bytes_.load(std::memory_order_relaxed); }
  void SetTotal(size_t bytes) { set_bytes_.store(bytes, std::memory_order_relaxed); }
  // SIZE_MAX: no limit.
  void SetLimit(size_t bytes) { limit_bytes_.store(bytes, std::memory_order_relaxed); }
  // Memory pressure has this level (1 to 3) now. It holds for kPressureHoldMs after the last call.
  void NotePressure(int level, int64_t now_ms) {
    pressure_until_ms_.store(now_ms + kPressureHoldMs, std::memory_order_relaxed);
    pressure_level_.store(level, std::memory_order_relaxed);
  }

  // Memory pressure was noted: Shares needs the time.
  bool needs_time() const { return pressure_level_.load(std::memory_order_relaxed) != 0; }
  RetentionShares Shares(size_t in_use_bytes, size_t thread_caches, int64_t now_ms) const {
    int level = pressure_level_.load(std::memory_order_relaxed);
    if (now_ms >= pressure_until_ms_.load(std::memory_order_relaxed)) level = 0;
    return ShareRetention({.in_use_bytes = in_use_bytes,
                           .thread_caches = thread_caches,
                           .set_bytes = set_bytes_.load(std::memory_order_relaxed),
                           .limit_bytes = limit_bytes_.load(std::memory_order_relaxed),
                           .pressure_level = level});
  }

 private:
  std::atomic<size_t> set_bytes_{0};
  std::atomic<size_t> limit_bytes_{SIZE_MAX};
  std::atomic<int> pressure_level_{0};
  std::atomic<int64_t> pressure_until_ms_{0};
};

}  // namespace tcmalloc
