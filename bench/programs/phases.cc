// SPDX-License-Identifier: BSD-3-Clause

// phases: a program that works in phases, each with new threads and with objects of other sizes
// than the previous phase. In a phase the threads build up MIB of objects together, free them all
// and end. The next phase should reuse that memory: an allocator that strands it in the arenas or
// caches of ended threads needs more with every phase. `blowup` is the peak of resident memory
// divided by the memory that one phase requests.
#include <iterator>

#include "bench/common/arguments.h"
#include "bench/common/object_list.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

struct SizeRange {
  uint64_t smallest;
  uint64_t largest;
};
// The sizes of URLs, tree nodes, documents, and buffers.
constexpr SizeRange kPhases[] = {{24, 120}, {16, 64}, {200, 2000}, {1000, 16000}};

void BuildUpAndFree(const SizeRange& sizes, uint64_t bytes, uint64_t seed) {
  Random random(seed);
  ObjectList objects;
  while (objects.bytes() < bytes) {
    objects.Append(random.FastBetween(sizes.smallest, sizes.largest));
  }
  objects.FreeAll();
}

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv,
                      "Phases that allocate much and free it, in threads of their own.");
  const uint64_t phases = arguments.Number("PHASES", 8, 1, 1'000'000);
  const uint64_t mib = arguments.Number("MIB", 150, 1, 1 << 20);
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  MeasuredPart part;
  for (uint64_t phase = 0; phase < phases; ++phase) {
    const SizeRange& sizes = kPhases[phase % std::size(kPhases)];
    RunThreads(threads, [&](size_t thread) {
      BuildUpAndFree(sizes, (mib << 20) / threads, seed + phase * kMostThreads + thread);
    });
  }
  part.End();
  Report report("phases", part);
  report.Value("time_s", part.wall_s(), "s", Better::kLower);
  report.Value("blowup",
               static_cast<double>(report.peak_rss_kib()) / static_cast<double>(mib << 10), "1",
               Better::kLower);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
