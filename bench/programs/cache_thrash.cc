// SPDX-License-Identifier: BSD-3-Clause

// cache-thrash: shows whether the allocator by itself places objects of different threads on one
// cache line (active false sharing).
#include "bench/common/cache_lines.h"

int main(int argc, char** argv) {
  const tcmalloc::bench::CacheLineProgram program = {
      .name = "cache-thrash",
      .summary = "Threads write to small objects of their own.",
      .hand_over_first = false};
  program.Main(argc, argv);
}
