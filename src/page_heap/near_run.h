// SPDX-License-Identifier: BSD-3-Clause
// How long near runs are: the runs of pages in which the spans of one shard follow each other. A
// pure function.
//
// Why there are runs, and why they are longer in heaps with more in use: Tuning::Placement.
#pragma once

#include <cstddef>

#include "base/tuning.h"
#include "base/units.h"

namespace tcmalloc {

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
