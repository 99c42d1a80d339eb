// SPDX-License-Identifier: BSD-3-Clause

// linux-scalability: after Lever and Boreham ("malloc() Performance in a Multithreaded Linux
// Environment", 2000). Each thread allocates ITERATIONS objects of one size, then frees them,
// ROUNDS times. The program does not touch the objects: an allocator that does not touch them
// either uses address space, but little memory.
#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Threads allocate many objects of one size, then free them.");
  const uint64_t size = arguments.Number("SIZE", 512, 1, 1 << 30);
  const uint64_t iterations = arguments.Number("ITERATIONS", 1'500'000, 1, uint64_t{1} << 32);
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  const uint64_t rounds = arguments.Number("ROUNDS", 1, 1, 1'000'000);
  arguments.End();

  MappedArray<void*> objects(iterations * threads);
  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    void** const own = &objects[thread * iterations];
    for (uint64_t round = 0; round < rounds; ++round) {
      for (uint64_t i = 0; i < iterations; ++i) own[i] = Allocate(size);
      for (uint64_t i = 0; i < iterations; ++i) free(own[i]);
    }
  });
  part.End();
  ReportTime("linux-scalability", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
