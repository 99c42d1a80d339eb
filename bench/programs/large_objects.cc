// SPDX-License-Identifier: BSD-3-Clause

// large-objects: threads allocate objects between SIZE / 2 and SIZE bytes and touch each page.
// Together they hold up to MIB of them. By default a thread frees a random one of its objects and
// allocates another in its place ("turned over"). With --held a thread allocates all its objects,
// then frees all in random order, and starts again.
#include <algorithm>
#include <span>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

struct Load {
  bool held;
  uint64_t size;
  uint64_t allocations;  // by each thread
};

void Replace(Object* object, const Load& load, Random* random, uint32_t mark) {
  if (object->memory != nullptr) object->Check();
  free(object->memory);
  *object = Object::New(random->FastBetween(load.size / 2 + 1, load.size), mark);
  object->MarkThroughout();
}

void FreeAll(std::span<Object> objects) {
  for (Object& object : objects) {
    if (object.memory != nullptr) object.Check();
    free(object.memory);
    object.memory = nullptr;
  }
}

void Work(std::span<Object> own, const Load& load, uint64_t seed) {
  Random random(seed);
  for (uint64_t i = 0; i < load.allocations; ++i) {
    const uint64_t place = load.held ? i % own.size() : random.FastBelow(own.size());
    Replace(&own[place], load, &random, static_cast<uint32_t>(i));
    if (load.held && place + 1 == own.size()) {
      random.Shuffle(own);
      FreeAll(own);
    }
  }
  FreeAll(own);
}

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Objects of 16 KiB to 1 MiB, held or turned over.");
  Load load;
  load.held = arguments.Flag("--held", "allocate all objects, then free all, and again");
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  load.size = arguments.Number("SIZE", 65'536, 2, 1 << 30);
  load.allocations = arguments.Number("ALLOCATIONS", 100'000, 1, 1'000'000'000);
  const uint64_t mib = arguments.Number("MIB", 32, 1, 1 << 20);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  const uint64_t objects = std::max<uint64_t>((mib << 20) / (load.size * threads), 1);
  MappedArray<Object> all(threads * objects);
  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    Work(all.elements().subspan(thread * objects, objects), load, seed + thread);
  });
  part.End();

  const double allocations = static_cast<double>(threads * load.allocations);
  Report report("large-objects", part);
  report.Value("time_s", part.wall_s(), "s", Better::kLower);
  report.Value("allocations_per_s", allocations / part.wall_s(), "1/s", Better::kHigher);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
