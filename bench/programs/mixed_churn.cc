// SPDX-License-Identifier: BSD-3-Clause

// mixed-churn: each thread holds OBJECTS objects of SMALLEST to LARGEST bytes and replaces random
// ones, REPLACEMENTS times. All doublings of the size are equally frequent. No thread frees
// objects of another one. With more threads than CPUs each thread's cache waits while the others
// work.
#include <algorithm>
#include <bit>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

// Requires: smallest <= largest.
class Sizes {
 public:
  Sizes(uint64_t smallest, uint64_t largest)
      : smallest_(smallest),
        largest_(largest),
        doublings_(std::bit_width(std::max<uint64_t>((largest - 1) / smallest, 1))) {}

  size_t Any(Random* random) const {
    const uint32_t doubling = random->FastBelow(doublings_);
    const uint64_t low = smallest_ << doubling;
    return random->FastBetween(low, doubling + 1 == doublings_ ? largest_ : 2 * low - 1);
  }

 private:
  const uint64_t smallest_;
  const uint64_t largest_;
  const uint32_t doublings_;  // of the smallest size, rounded up; at least one
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Threads replace random objects of mixed sizes.");
  const uint64_t threads = arguments.Number("THREADS", 8, 1, kMostThreads);
  const uint64_t objects = arguments.Number("OBJECTS", 20'000, 1, 100'000'000);
  const uint64_t replacements = arguments.Number("REPLACEMENTS", 1'000'000, 1, uint64_t{1} << 40);
  const uint64_t smallest = arguments.Number("SMALLEST", 16, 1, 1 << 30);
  const uint64_t largest = arguments.Number("LARGEST", 512, smallest, 1 << 30);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  const Sizes sizes(smallest, largest);
  MappedArray<Object> all(threads * objects);
  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    Random random(seed + thread);
    Object* const own = &all[thread * objects];
    const auto allocate = [&](Object* object, uint64_t mark) {
      *object = Object::New(sizes.Any(&random), static_cast<uint32_t>(mark));
      object->MarkThroughout();
    };
    const auto release = [](const Object& object) {
      object.Check();
      free(object.memory);
    };
    for (uint64_t i = 0; i < objects; ++i) allocate(&own[i], i);
    for (uint64_t i = 0; i < replacements; ++i) {
      Object* const victim = &own[random.FastBelow(objects)];
      release(*victim);
      allocate(victim, objects + i);
    }
    for (uint64_t i = 0; i < objects; ++i) release(own[i]);
  });
  part.End();
  ReportTime("mixed-churn", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
