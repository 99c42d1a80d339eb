// SPDX-License-Identifier: BSD-3-Clause
// The rules by which a span's place is chosen: when to save address space, and how long near runs
// are. Pure functions.
#pragma once

#include <bit>
#include <cstddef>

#include "base/tuned.h"
#include "base/units.h"

namespace tcmalloc {

// The lengths of near runs, powers of two. A CPU prefetches past the end of a span, into memory in
// which another CPU works: two threads took 6 ns for each cache line with blocks of 32 KiB, 3.6
// with 64 KiB, 1.9 with 256 KiB or more. The last pages of a run are wasted: 1 to 2 % of a heap of
// 800 MiB with runs of 256 KiB, 0.3 % with 1 MiB (decision 0010).
inline constexpr Length kMinNearRun = TunedLength(256_KiB, 64_KiB, 2_MiB);
inline constexpr Length kMaxNearRun = TunedLength(1_MiB, kMinNearRun.bytes(), 2_MiB);
static_assert(std::has_single_bit(kMinNearRun.pages()) && std::has_single_bit(kMaxNearRun.pages()));
// What placement may take beyond the memory in use, as a part of it: the current runs of all shards
// together, and the address space beyond the spare. Not measured.
inline constexpr size_t kPlacementPart = Tuned(16, 4, 256);

// When to place a large object so that it saves address space rather than page faults.
//
// A large object can be placed where memory is backed, or in the tightest fit, backed or not. The
// first saves page faults. The second saves address space: the heap grows if objects cut up long
// backed runs while released runs of the right length stay unused. Address space is cheap (records,
// and 9 bytes of the page map for each page), so it is saved only when the heap has much more of it
// than was ever in use at once.
//
// How much more: one growth of the greatest length and a part. With 128 MiB, heaps of 500 MiB take
// more than 1.25 times what best fit takes. To save space always costs 1.4 times the page faults
// with buffers of 64 KiB to 4 MiB; never, up to 1.5 times the address space (decision 0030).
//
// `system`: pages from the OS; `most_in_use`: the most that were ever in use at once; `spare`:
// PageHeapOptions::spare_space.
constexpr bool SavesSpace(Length system, Length most_in_use, Length spare) {
  return system > most_in_use + Length(most_in_use.pages() / kPlacementPart) + spare;
}

// How long near runs are: the runs of pages in which the spans of one shard follow
// each other.
//
// `in_use`: pages in use in the heap; `shards`: the number of shards that have spans.
constexpr Length NearRun(Length in_use, size_t shards) {
  Length run = kMaxNearRun;
  while (run > kMinNearRun && run.pages() * shards * kPlacementPart > in_use.pages()) {
    run = Length(run.pages() / 2);
  }
  return run;
}

}  // namespace tcmalloc
