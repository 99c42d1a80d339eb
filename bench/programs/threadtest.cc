// SPDX-License-Identifier: BSD-3-Clause

// threadtest: after Berger et al. ("Hoard: A Scalable Memory Allocator for Multithreaded
// Applications", 2000). The threads share OBJECTS objects evenly; each allocates its part, writes
// to it and frees it, ITERATIONS times. Each object causes additional work of the length WORK. An
// object is SIZE elements of 8 bytes.
#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr uint64_t kElementBytes = 8;

void Work(uint64_t amount) {
  for (volatile uint64_t i = 0; i < amount;) i = i + 1;
}

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Threads allocate many small objects and free them all.");
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  const uint64_t iterations = arguments.Number("ITERATIONS", 500, 1, 1'000'000'000);
  const uint64_t objects = arguments.Number("OBJECTS", 100'000, threads, 1'000'000'000);
  const uint64_t work = arguments.Number("WORK", 0, 0, 1'000'000'000);
  const uint64_t size = arguments.Number("SIZE", 8, 1, 1 << 20);
  arguments.End();

  const uint64_t objects_per_thread = objects / threads;
  MappedArray<unsigned char*> all(objects_per_thread * threads);
  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    unsigned char** const own = &all[thread * objects_per_thread];
    for (uint64_t i = 0; i < iterations; ++i) {
      for (uint64_t k = 0; k < objects_per_thread; ++k) {
        Work(work);
        const Object object = Object::New(size * kElementBytes, static_cast<uint32_t>(i + k));
        object.MarkFront();
        own[k] = object.memory;
      }
      for (uint64_t k = 0; k < objects_per_thread; ++k) {
        Work(work);
        Object{own[k], static_cast<uint32_t>(size * kElementBytes), static_cast<uint32_t>(i + k)}
            .CheckFront();
        free(own[k]);
      }
    }
  });
  part.End();
  ReportTime("threadtest", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
