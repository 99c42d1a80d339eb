// SPDX-License-Identifier: BSD-3-Clause

// shared-lines: measures passive false sharing after churn. Each thread keeps OBJECTS objects of
// SIZE bytes; in each of ROUNDS rounds it frees a random half of them and allocates as many again.
// About MOVES times in each of these two steps it moves to a random CPU; the OS may move it too. No
// thread frees objects of another one.
//
// Then the program counts the cache lines, pairs of adjacent lines (which CPUs fetch together) and
// hardware pages with objects of more than one thread, as a share of all those with objects. At
// last all threads write to all their objects WRITES times, and the CPU time per write is measured.
#include <sched.h>

#include <algorithm>
#include <span>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/resident.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr unsigned kLineShift = 6;
constexpr unsigned kLinePairShift = 7;
constexpr unsigned kPageShift = 12;

struct Load {
  uint64_t threads;
  uint64_t size;
  uint64_t objects;  // of each thread
  uint64_t rounds;
  uint64_t moves;
  uint64_t writes;
  uint64_t seed;
};

// The CPUs that this process may use.
class Processors {
 public:
  Processors() {
    if (sched_getaffinity(0, sizeof(all_), &all_) != 0) Fail("cannot read the CPU affinity");
  }

  // Moves the calling thread to a random CPU, and allows all of them again.
  void Move(Random* random) const {
    uint32_t skipped = random->FastBelow(static_cast<uint64_t>(CPU_COUNT(&all_)));
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all_) || skipped-- > 0) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0 ||
        sched_setaffinity(0, sizeof(all_), &all_) != 0) {
      Fail("cannot set the CPU affinity");
    }
  }

 private:
  cpu_set_t all_;
};

class Churn {
 public:
  explicit Churn(const Load& load) : load_(load), objects_(load.threads * load.objects) {}

  void Run(size_t thread) {
    Random random(load_.seed * kMostThreads + thread);
    const std::span<Object> own = Own(thread);
    uint32_t mark = static_cast<uint32_t>(thread * load_.objects);
    for (Object& object : own) New(&object, mark++);
    const uint64_t steps_per_move = std::max<uint64_t>(own.size() / (load_.moves + 1), 1);
    for (uint64_t round = 0; round < load_.rounds; ++round) {
      for (size_t i = 0; i < own.size(); ++i) {
        if (load_.moves > 0 && i % steps_per_move == 0) processors_.Move(&random);
        if (random.FastBelow(2) == 0) Free(&own[i]);
      }
      random.Shuffle(own);
      for (size_t i = 0; i < own.size(); ++i) {
        if (load_.moves > 0 && i % steps_per_move == 0) processors_.Move(&random);
        // Reuses the mark of the previous object of this slot, which no other object has.
        if (own[i].memory == nullptr) New(&own[i], own[i].mark);
      }
    }
  }

  void Write(size_t thread) {
    const std::span<Object> own = Own(thread);
    for (uint64_t i = 0; i < load_.writes; ++i) {
      for (const Object& object : own) {
        // Writes the byte that the object already has.
        *static_cast<volatile unsigned char*>(object.memory) =
            static_cast<unsigned char>(object.mark);
      }
    }
  }

  void FreeAll(size_t thread) {
    for (Object& object : Own(thread)) Free(&object);
  }

  // Returns the percentage of units of 2^shift bytes with objects of more than one thread, among
  // all units with objects.
  double SharedPercent(unsigned shift) const {
    struct Use {
      uintptr_t unit;
      size_t thread;
      auto operator<=>(const Use&) const = default;
    };
    const uint64_t most = ((load_.size - 1) >> shift) + 2;
    MappedArray<Use> uses(objects_.size() * most);
    size_t n = 0;
    for (size_t i = 0; i < objects_.size(); ++i) {
      const uintptr_t start = reinterpret_cast<uintptr_t>(objects_[i].memory);
      for (uintptr_t unit = start >> shift; unit <= (start + load_.size - 1) >> shift; ++unit) {
        uses[n++] = {unit, i / load_.objects};
      }
    }
    std::sort(uses.begin(), uses.begin() + n);
    size_t units = 0;
    size_t shared = 0;
    for (size_t i = 0; i < n;) {
      const Use first = uses[i];
      bool is_shared = false;
      for (; i < n && uses[i].unit == first.unit; ++i) is_shared |= uses[i].thread != first.thread;
      ++units;
      shared += is_shared ? 1 : 0;
    }
    return 100 * static_cast<double>(shared) / static_cast<double>(units);
  }

 private:
  std::span<Object> Own(size_t thread) {
    return objects_.elements().subspan(thread * load_.objects, load_.objects);
  }
  void New(Object* object, uint32_t mark) const {
    *object = Object::New(load_.size, mark);
    object->MarkFront();
  }
  static void Free(Object* object) {
    object->CheckFront();
    free(object->memory);
    object->memory = nullptr;
  }

  const Load load_;
  const Processors processors_;
  MappedArray<Object> objects_;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "How many cache lines threads share after churn.");
  Load load;
  load.threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  load.size = arguments.Number("SIZE", 8, 1, 1 << 20);
  load.objects = arguments.Number("OBJECTS", 200'000, 1, 1'000'000'000);
  load.rounds = arguments.Number("ROUNDS", 20, 0, 1'000'000);
  load.moves = arguments.Number("MOVES", 20, 0, 1'000'000);
  load.writes = arguments.Number("WRITES", 20, 1, 1'000'000);
  load.seed = arguments.Number("SEED", 1, 0, UINT64_MAX / kMostThreads - 1);
  arguments.End();

  Churn churn(load);
  // The last thread counts and measures.
  Barrier barrier(load.threads + 1);
  double lines = 0;
  double line_pairs = 0;
  double pages = 0;
  long churn_peak_kib = 0;  // counting takes memory too
  MeasuredPart part;
  RunThreads(load.threads + 1, [&](size_t thread) {
    const bool churns = thread < load.threads;
    if (churns) churn.Run(thread);
    barrier.Wait();
    if (!churns) {
      churn_peak_kib = PeakResidentKib();
      lines = churn.SharedPercent(kLineShift);
      line_pairs = churn.SharedPercent(kLinePairShift);
      pages = churn.SharedPercent(kPageShift);
      part = MeasuredPart();
    }
    barrier.Wait();
    if (churns) churn.Write(thread);
    barrier.Wait();
    if (!churns) part.End();
    barrier.Wait();
    if (churns) churn.FreeAll(thread);
  });

  Report report("shared-lines", part);
  const double writes = static_cast<double>(load.threads * load.objects * load.writes);
  report.Value("write_ns", 1e9 * part.cpu_s() / writes, "ns", Better::kLower);
  report.Value("shared_lines", lines, "%", Better::kLower);
  report.Value("shared_line_pairs", line_pairs, "%", Better::kLower);
  report.Value("shared_pages", pages, "%", Better::kLower);
  report.Value("churn_peak_kib", static_cast<double>(churn_peak_kib), "KiB", Better::kLower);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
