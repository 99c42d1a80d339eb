// SPDX-License-Identifier: BSD-3-Clause

// short-threads: THREADS threads, PARALLEL at a time. Each allocates OBJECTS objects of 16 to 1,024
// bytes, frees them and ends. Shows how quickly a thread gets its first objects, and what happens
// to its cache.
#include <algorithm>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr uint64_t kSmallest = 16;
constexpr uint64_t kLargest = 1024;

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Many threads with short lives and few objects.");
  const uint64_t threads = arguments.Number("THREADS", 20'000, 1, 100'000'000);
  const uint64_t parallel = arguments.Number("PARALLEL", 2, 1, kMostThreads);
  const uint64_t objects = arguments.Number("OBJECTS", 100, 1, 1'000'000);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  MappedArray<Object> all(parallel * objects);
  MeasuredPart part;
  for (uint64_t started = 0; started < threads; started += parallel) {
    RunThreads(std::min(parallel, threads - started), [&](size_t thread) {
      Random random(seed + started + thread);
      Object* const own = &all[thread * objects];
      for (uint64_t i = 0; i < objects; ++i) {
        own[i] = Object::New(random.FastBetween(kSmallest, kLargest), static_cast<uint32_t>(i));
        own[i].MarkThroughout();
      }
      for (uint64_t i = 0; i < objects; ++i) {
        own[i].Check();
        free(own[i].memory);
      }
    });
  }
  part.End();
  ReportTime("short-threads", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
