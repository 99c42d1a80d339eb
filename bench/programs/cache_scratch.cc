// SPDX-License-Identifier: BSD-3-Clause

// cache-scratch: one thread hands memory to others, which free it. Shows whether the allocator
// returns it to them, so that they share cache lines for ever (passive false sharing).
#include "bench/common/cache_lines.h"

int main(int argc, char** argv) {
  const tcmalloc::bench::CacheLineProgram program = {
      .name = "cache-scratch",
      .summary =
          "Threads free an object of the main thread's, then write to small objects of their "
          "own.",
      .hand_over_first = true};
  program.Main(argc, argv);
}
