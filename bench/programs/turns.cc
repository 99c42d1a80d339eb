// SPDX-License-Identifier: BSD-3-Clause

// turns: many threads work one at a time, as in a server with a thread for each
// connection. Each thread keeps OBJECTS objects of 16 bytes to 4 KiB. In a turn it replaces
// REPLACED of them in bursts: it frees a run of 100 objects and allocates as many of other sizes.
// Then it wakes the next thread and sleeps until all others had their turns.
//
// The measured part begins after a few turns of each thread. The figure is the time of one pair of
// an allocation and a free.
#include <semaphore.h>

#include <algorithm>
#include <span>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr size_t kBurst = 100;
constexpr size_t kWarmTurns = 10;
// A size is a power of two from 16 bytes to 2 KiB, plus a random part of up to the same size.
constexpr size_t kSmallest = 16;
constexpr size_t kPowers = 8;

struct Load {
  uint64_t threads;
  uint64_t turns;  // the measured turns of each thread
  uint64_t objects;
  uint64_t replaced;
  uint64_t seed;
};

class TurnTaking {
 public:
  explicit TurnTaking(const Load& load)
      : load_(load), wakes_(load.threads), objects_(load.threads * load.objects) {
    for (sem_t& wake : wakes_) {
      if (sem_init(&wake, 0, 0) != 0) Fail("cannot make a semaphore");
    }
    Wake(0);
  }

  void Run(size_t thread) {
    Random random(load_.seed * kMostThreads + thread);
    const std::span<Object> own =
        objects_.elements().subspan(thread * load_.objects, load_.objects);
    for (uint64_t turn = 0; turn < kWarmTurns + load_.turns; ++turn) {
      while (sem_wait(&wakes_[thread]) != 0) {
      }
      if (thread == 0 && turn == kWarmTurns) part_ = MeasuredPart();
      if (turn == 0) {
        Fill(own, &random);
      } else {
        for (uint64_t left = load_.replaced; left > 0;) {
          const size_t burst = std::min({left, uint64_t{kBurst}, load_.objects});
          Replace(own, random.FastBelow(load_.objects), burst, &random);
          left -= burst;
        }
      }
      if (thread + 1 == load_.threads && turn + 1 == kWarmTurns + load_.turns) part_.End();
      Wake((thread + 1) % load_.threads);
    }
    // The last thread wakes the first thread one last time.
    for (Object& object : own) Free(&object);
  }

  const MeasuredPart& part() const { return part_; }

 private:
  void Wake(size_t thread) { sem_post(&wakes_[thread]); }

  void New(Object* object, Random* random) {
    const size_t power = kSmallest << random->FastBelow(kPowers);
    *object = Object::New(power + random->FastBelow(power), ++marks_);
    object->MarkFront();
  }
  static void Free(Object* object) {
    object->CheckFront();
    free(object->memory);
  }
  void Fill(std::span<Object> own, Random* random) {
    for (Object& object : own) New(&object, random);
  }
  void Replace(std::span<Object> own, size_t first, size_t count, Random* random) {
    for (size_t i = 0; i < count; ++i) Free(&own[(first + i) % own.size()]);
    for (size_t i = 0; i < count; ++i) New(&own[(first + i) % own.size()], random);
  }

  const Load load_;
  MappedArray<sem_t> wakes_;
  MappedArray<Object> objects_;
  // Used by the thread whose turn it is.
  uint32_t marks_ = 0;
  MeasuredPart part_;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Threads that take turns to replace their objects.");
  Load load;
  load.threads = arguments.Number("THREADS", 100, 1, kMostThreads);
  load.turns = arguments.Number("TURNS", 40, 1, 1'000'000'000);
  load.objects = arguments.Number("OBJECTS", 500, 1, 1'000'000);
  load.replaced = arguments.Number("REPLACED", 500, 1, 1'000'000'000);
  load.seed = arguments.Number("SEED", 1, 0, UINT64_MAX / kMostThreads - 1);
  arguments.End();

  TurnTaking turns(load);
  RunThreads(load.threads, [&turns](size_t thread) { turns.Run(thread); });

  const double pairs = static_cast<double>(load.threads * load.turns * load.replaced);
  Report report("turns", turns.part());
  report.Value("pair_ns", 1e9 * turns.part().wall_s() / pairs, "ns", Better::kLower);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
