// SPDX-License-Identifier: BSD-3-Clause

// idle-threads: measures the resident memory of threads that have allocated a little and now wait.
// THREADS threads wait; then each allocates ten objects of 16 to 256 bytes, frees them and waits
// again, for SECONDS. The figure is the memory that became resident in between, divided by the
// number of threads: their stacks were in use already.
#include <unistd.h>

#include <cstdint>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/resident.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr size_t kObjects = 10;
constexpr size_t kStackBytes = 16 * 1024;

[[gnu::noinline]] void TouchStack() {
  unsigned char bytes[kStackBytes];
  memset(bytes, 1, sizeof(bytes));
  asm volatile("" : : "r"(bytes) : "memory");  // the compiler must keep the writes
}

void AllocateAndFree(uint64_t seed) {
  Random random(seed);
  Object objects[kObjects];
  for (size_t i = 0; i < kObjects; ++i) {
    objects[i] = Object::New(random.FastBetween(16, 256), static_cast<uint32_t>(i));
    objects[i].MarkThroughout();
  }
  for (const Object& object : objects) {
    object.Check();
    free(object.memory);
  }
}

void Sleep(double seconds) { usleep(static_cast<useconds_t>(seconds * 1e6)); }

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "The resident memory of threads that wait.");
  const uint64_t threads = arguments.Number("THREADS", 500, 1, kMostThreads);
  const double seconds = arguments.Seconds("SECONDS", 0.2);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  // Each step ends when all threads and the main thread have arrived.
  Barrier barrier(threads + 1);
  auto wait_and_work = [&](size_t thread) {
    TouchStack();
    barrier.Wait();  // all threads have started
    barrier.Wait();  // memory without objects is measured
    AllocateAndFree(seed + thread);
    barrier.Wait();  // all threads have worked
    barrier.Wait();  // memory is measured
  };
  struct Entry {
    ThreadStart<decltype(wait_and_work), size_t> start;
    pthread_t thread;
  };
  MappedArray<Entry> entries(threads);
  for (size_t i = 0; i < threads; ++i) {
    entries[i].start = {.body = &wait_and_work, .argument = i};
    entries[i].thread = entries[i].start.Create();
  }
  barrier.Wait();
  Sleep(seconds);
  ResidentKib();  // makes the memory resident that measuring needs
  const long before = ResidentKib();

  MeasuredPart part;
  barrier.Wait();
  barrier.Wait();
  part.End();
  Sleep(seconds);
  const long idle = ResidentKib();
  barrier.Wait();
  for (const Entry& entry : entries) JoinThread(entry.thread);
  const long after = ResidentKib();

  const auto kib_per_thread = [threads](long kib) {
    return static_cast<double>(kib) / static_cast<double>(threads);
  };
  Report report("idle-threads", part);
  report.Value("kib_per_thread", kib_per_thread(idle - before), "KiB", Better::kLower);
  report.Value("idle_rss_kib", static_cast<double>(idle), "KiB", Better::kLower);
  report.Value("joined_rss_kib", static_cast<double>(after), "KiB", Better::kLower);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
