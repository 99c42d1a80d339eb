// SPDX-License-Identifier: BSD-3-Clause

// ramp: shows resident memory over time. Over RAMP seconds the program allocates MIB of objects of
// mixed sizes, then frees all but KEEP_PERCENT of them at once, idles for IDLE seconds, in which it
// does not call the allocator, and at last makes 2,000 allocations and frees, to which an allocator
// without threads of its own may react. The kept objects are the oldest ones or, if SCATTERED is 1,
// random ones. The samples are the report's series.
#include <unistd.h>

#include "bench/common/arguments.h"
#include "bench/common/course.h"
#include "bench/common/object_list.h"
#include "bench/common/random.h"
#include "bench/common/report.h"

namespace tcmalloc::bench {
namespace {

// Small objects, and some buffers.
constexpr uint64_t kSmallest = 16;
constexpr uint64_t kLargestSmall = 512;
constexpr uint64_t kLargest = 32 * 1024;
constexpr uint64_t kOneBufferIn = 100;

constexpr double kSampleEveryS = 0.05;
constexpr size_t kWakingOperations = 2000;

using RampCourse = Course<2>;

void MaySample(RampCourse* course) {
  if (course->due()) course->Sample();
}

void Idle(RampCourse* course, double seconds) {
  const double end_s = course->elapsed_s() + seconds;
  while (course->elapsed_s() < end_s) {
    MaySample(course);
    usleep(10'000);
  }
}

uint32_t RandomSize(Random* random) {
  const bool buffer = random->FastBelow(kOneBufferIn) == 0;
  return buffer ? random->FastBetween(kLargestSmall, kLargest)
                : random->FastBetween(kSmallest, kLargestSmall);
}

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Resident memory through a ramp, a drop, and idle seconds.");
  const uint64_t mib = arguments.Number("MIB", 512, 1, 1 << 20);
  const uint64_t keep_percent = arguments.Number("KEEP_PERCENT", 10, 0, 100);
  const double ramp_s = arguments.Seconds("RAMP", 2);
  const double idle_s = arguments.Seconds("IDLE", 10);
  const uint64_t scattered = arguments.Number("SCATTERED", 0, 0, 1);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  const uint64_t bytes = mib << 20;
  Random random(seed);
  ObjectList objects;
  // Even on a slow machine the ramp takes at most ten times as long as requested.
  RampCourse course(10 * ramp_s + idle_s, kSampleEveryS);
  MeasuredPart part;
  course.Sample();
  while (objects.bytes() < bytes) {
    for (int i = 0; i < 256; ++i) objects.Append(RandomSize(&random));
    MaySample(&course);
    // Does not allocate faster than the ramp.
    const double due_s = ramp_s * static_cast<double>(objects.bytes()) / static_cast<double>(bytes);
    if (due_s > course.elapsed_s() + 0.001) {
      usleep(static_cast<useconds_t>((due_s - course.elapsed_s()) * 1e6));
    }
  }
  const double full_kib = course.Sample();
  const uint64_t count = objects.count();
  objects.FreeAllBut([&](uint64_t position) {
    return scattered != 0 ? random.FastBelow(100) < keep_percent
                          : position * 100 < count * keep_percent;
  });
  const auto live_kib = static_cast<double>(objects.bytes()) / 1024;
  const double dropped_kib = course.Sample();
  Idle(&course, idle_s);
  const double idle_kib = course.Sample();
  for (size_t i = 0; i < kWakingOperations; ++i) free(Allocate(RandomSize(&random)));
  const double woken_kib = course.Sample();
  part.End();
  objects.FreeAll();

  Report report("ramp", part);
  report.Value("idle_rss_kib", idle_kib, "KiB", Better::kLower);
  report.Value("full_rss_kib", full_kib, "KiB", Better::kLower);
  report.Value("dropped_rss_kib", dropped_kib, "KiB", Better::kLower);
  report.Value("woken_rss_kib", woken_kib, "KiB", Better::kLower);
  report.Value("live_kib", live_kib, "KiB", Better::kLower);
  report.Series("rss", {"time_s", "rss_kib"}, course.rows());
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
