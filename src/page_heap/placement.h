// SPDX-License-Identifier: BSD-3-Clause
// The rules by which a span's place is chosen: when to save address space, and how long near runs
// are. Pure functions.
#pragma once

#include <cstddef>

#include "base/tuning.h"
#include "base/units.h"

namespace tcmalloc {

// When to place a large object so that it saves address space rather than page faults.
//
// A large object can be placed where memory is backed, or in the tightest fit, backed or not. The
// first saves page faults. The second saves address space: the heap grows if objects cut up long
// backed runs while released runs of the right length stay unused. Address space is cheap (records,
// and 9 bytes of the page map for each page), so it is saved only when the heap has much more of it
// than was ever in use at once. How much more, and what was measured: Tuning::Placement.
//
// `system`: pages from the OS; `most_in_use`: the most that were ever in use at once; `spare`: see
// Tuning::Placement::spare_space.
constexpr bool SavesSpace(Length system, Length most_in_use, Length spare) {
  return system >
         most_in_use + Length(most_in_use.pages() / kTuning.placement.spare_space_part) + spare;
}

// How long near runs are: the runs of pages in which the spans of one shard follow
// each other.
//
// Why there are runs, and why they are longer in heaps with more in use: Tuning::Placement.
//
// `in_use`: pages in use in the heap; `shards`: the number of shards that have spans.
constexpr Length NearRun(Length in_use, size_t shards) {
  Length run = kTuning.placement.max_near_run;
  while (run > kTuning.placement.min_near_run &&
         run.pages() * shards * kTuning.placement.near_runs_part > in_use.pages()) {
    run = Length(run.pages() / 2);
  }
  return run;
}

}  // namespace tcmalloc
