// SPDX-License-Identifier: BSD-3-Clause
// ShardMap: which shard of the central tier serves the calling thread. A shard belongs to a
// processor, or to a few where there are many: memory that goes through it stays near that
// processor's caches, and threads on other processors do not wait for its locks.
//
// Processors get their shards in the order in which they first ask: a process that is confined to
// four of a hundred has four.
//
// Why. Two threads on two processors that each allocate and free 3 MiB, again and again, spent
// half of their time (on processors with a common last-level cache) to four fifths (without) in
// touching objects that had been in the other one's cache, as long as they took memory from common
// lists.
//
// Thread safety: any; which shard a thread uses is a matter of speed alone, so all is relaxed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"

namespace tcmalloc {

inline constexpr size_t kMaxShards = kTuning.shards.max;

class ShardMap {
 public:
  // The number of the processor that the calling thread runs on; negative when it is not known.
  using Processor = int (*)();

  explicit constexpr ShardMap(Processor processor) : processor_(processor) {}

  // Less than kMaxShards. Cost: what the function costs, and a load.
  size_t Current() {
    const int processor = processor_();
    if (processor < 0) return 0;
    std::atomic<uint8_t>& entry = entries_[static_cast<size_t>(processor) % kMaxProcessors];
    const uint8_t known = entry.load(std::memory_order_relaxed);
    return (known != 0 ? known : Assign(entry)) - size_t{1};
  }

 private:
  // More share entries.
  static constexpr size_t kMaxProcessors = 1024;

  uint8_t Assign(std::atomic<uint8_t>& entry) {
    const size_t number = next_.fetch_add(1, std::memory_order_relaxed);
    const uint8_t fresh = static_cast<uint8_t>(number % kMaxShards + 1);
    uint8_t known = 0;
    return entry.compare_exchange_strong(known, fresh, std::memory_order_relaxed) ? fresh : known;
  }

  const Processor processor_;
  // Processors that have asked; when two threads on one ask at once, a number is skipped.
  std::atomic<size_t> next_{0};
  // The processor's shard + 1; 0: it has not asked yet.
  std::array<std::atomic<uint8_t>, kMaxProcessors> entries_ = {};
};

}  // namespace tcmalloc
