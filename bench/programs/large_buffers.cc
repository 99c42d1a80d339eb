// SPDX-License-Identifier: BSD-3-Clause

// large-buffers: each thread holds BUFFERS buffers of 64 KiB to 4 MiB, small ones more often than
// large ones, and replaces random ones. Each page of a buffer is touched.
#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr int kSmallestShift = 16;
constexpr int kLargestShift = 22;

// Every power of two is equally likely, and so are the sizes between two of them.
size_t RandomSize(Random* random) {
  const uint64_t power = uint64_t{1} << random->FastBetween(kSmallestShift, kLargestShift - 1);
  return power + random->FastBelow(power);
}

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Threads replace buffers of 64 KiB to 4 MiB at random.");
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  const uint64_t buffers = arguments.Number("BUFFERS", 16, 1, 1'000'000);
  const uint64_t replacements = arguments.Number("REPLACEMENTS", 30'000, 1, 1'000'000'000);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  MappedArray<Object> all(threads * buffers);
  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    Random random(seed + thread);
    Object* const own = &all[thread * buffers];
    for (uint64_t i = 0; i < replacements; ++i) {
      Object* const buffer = &own[random.FastBelow(buffers)];
      if (buffer->memory != nullptr) buffer->Check();
      free(buffer->memory);
      *buffer = Object::New(RandomSize(&random), static_cast<uint32_t>(i));
      buffer->MarkThroughout();
    }
    for (uint64_t i = 0; i < buffers; ++i) free(own[i].memory);
  });
  part.End();
  ReportTime("large-buffers", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
