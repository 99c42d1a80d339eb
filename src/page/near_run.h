// SPDX-License-Identifier: BSD-3-Clause
// How long the runs of pages are in which each shard's spans follow each other. A pure function.
//
// Why runs at all: a processor fetches what follows on what it reads, past the end of a span. Where
// that is memory in which another processor works, it costs that one: two threads that each swept
// their half of 6 MiB, in blocks that took turns, without a common last level of cache, took 6 ns
// for each line of a block of 32 KiB, 3.6 ns with 64 KiB, 1.9 ns with 256 KiB or more.
//
// Why longer ones in large heaps: at the end of each run a few pages are left over, too few for the
// next span, and it may be long until a shorter one is wanted. With 256 KiB, 1 to 2 % of a heap of
// 800 MiB were lost to that, with 1 MiB 0.3 %. What shards have begun and do not use is at most a
// 16th of what is in use. (docs/decisions/0010)
#pragma once

#include <cstddef>

#include "base/units.h"

namespace tcmalloc {

inline constexpr Length kMinNearRun = Length((size_t{256} << 10) >> kPageShift);
inline constexpr Length kMaxNearRun = Length((size_t{1} << 20) >> kPageShift);

// `in_use`: pages of the heap; `shards`: that have spans.
constexpr Length NearRun(Length in_use, size_t shards) {
  Length run = kMaxNearRun;
  while (run > kMinNearRun && run.pages() * shards * 16 > in_use.pages()) {
    run = Length(run.pages() / 2);
  }
  return run;
}

}  // namespace tcmalloc
