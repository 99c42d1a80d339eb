// SPDX-License-Identifier: BSD-3-Clause

// t-test1: the program of the figures in the TCMalloc document. Independent threads allocate and
// free objects of random sizes. Each thread has a number of bins that hold one object or none; it
// empties a few random bins, fills a few others, and so on. N_TOTAL threads run, N_PARALLEL at a
// time.
//
// An operation is one allocation or one free. Most allocations call malloc; some call calloc,
// aligned_alloc, or realloc of the object in the bin.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

// The bytes that all bins together may hold, if their number is not given.
constexpr uint64_t kMemoryBytes = 8'000'000;
// The most operations of one kind in a row.
constexpr uint64_t kMostAtOnce = 16;

class Worker {
 public:
  Worker(uint64_t seed, uint64_t largest, uint64_t bins)
      : random_(seed),
        largest_(largest),
        num_bins_(bins),
        bins_(static_cast<Object*>(Allocate(bins * sizeof(Object)))) {
    for (uint64_t i = 0; i < bins; ++i) {
      bins_[i].memory = nullptr;
      if (random_.FastBelow(2) == 0) Fill(&bins_[i]);
    }
  }

  void Operate(uint64_t operations) {
    uint64_t done = 0;
    while (done < operations) {
      for (uint64_t i = random_.FastBetween(1, kMostAtOnce); i > 0; --i) done += Empty(RandomBin());
      for (uint64_t i = random_.FastBetween(1, kMostAtOnce); i > 0; --i) done += Fill(RandomBin());
    }
  }

  void Finish() {
    for (uint64_t i = 0; i < num_bins_; ++i) {
      if (bins_[i].memory != nullptr) bins_[i].Check();
      free(bins_[i].memory);
    }
    free(bins_);
  }

 private:
  Object* RandomBin() { return &bins_[random_.FastBelow(num_bins_)]; }

  // Both functions return the number of their operations.
  uint64_t Empty(Object* bin) {
    if (bin->memory == nullptr) return 0;
    free(bin->memory);
    bin->memory = nullptr;
    return 1;
  }

  uint64_t Fill(Object* bin) {
    const uint32_t size = random_.FastBetween(1, largest_);
    const uint32_t way = random_.FastBelow(256);
    if (way < 8) {
      void* const memory = realloc(bin->memory, size);
      Set(bin, memory, size);
      return 1;
    }
    const uint64_t freed = Empty(bin);
    if (way < 12) {
      Set(bin, calloc(1, size), size);
    } else if (way < 13) {
      Set(bin, aligned_alloc(64, size), size);
    } else {
      Set(bin, malloc(size), size);
    }
    return freed + 1;
  }

  void Set(Object* bin, void* memory, uint32_t size) {
    if (memory == nullptr) Fail("an allocation of %u bytes returned null", size);
    *bin = {.memory = static_cast<unsigned char*>(memory), .size = size, .mark = ++marks_};
    bin->MarkThroughout();
  }

  Random random_;
  const uint64_t largest_;
  const uint64_t num_bins_;
  Object* const bins_;
  uint32_t marks_ = 0;
};

// The places of parallel threads that have become free.
class FreePlaces {
 public:
  explicit FreePlaces(size_t most) : places_(most) {}

  void Push(size_t place) {
    const std::lock_guard lock(mutex_);
    places_[count_++] = place;
    changed_.notify_one();
  }
  size_t Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ > 0; });
    return places_[--count_];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  MappedArray<size_t> places_;  // guarded by mutex_
  size_t count_ = 0;            // guarded by mutex_
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Independent threads, objects of random sizes in bins.");
  const uint64_t total = arguments.Number("N_TOTAL", 10, 1, 1'000'000);
  const uint64_t parallel = arguments.Number("N_PARALLEL", 2, 1, kMostThreads);
  const uint64_t operations = arguments.Number("I_MAX", 10'000, 1, uint64_t{1} << 40);
  const uint64_t largest = arguments.Number("SIZE", 10'000, 1, 1 << 30);
  const uint64_t usual_bins = std::max<uint64_t>(kMemoryBytes / (largest * parallel), 1);
  const uint64_t bins = arguments.Number("BINS", usual_bins, 1, 100'000'000);
  arguments.End();

  struct Job {
    size_t place;
    uint64_t seed;
  };
  FreePlaces free_places(parallel);
  auto work = [&](const Job& job) {
    Worker worker(job.seed, largest, bins);
    worker.Operate(operations);
    worker.Finish();
    free_places.Push(job.place);
  };
  struct Place {
    ThreadStart<decltype(work), Job> start;
    pthread_t thread;
    bool used;
  };
  MappedArray<Place> places(parallel);
  for (size_t i = parallel; i > 0; --i) free_places.Push(i - 1);

  MeasuredPart part;
  for (uint64_t started = 0; started < total; ++started) {
    Place* const place = &places[free_places.Pop()];
    if (place->used) JoinThread(place->thread);
    const auto index = static_cast<size_t>(place - places.begin());
    place->start = {.body = &work, .argument = {.place = index, .seed = started + 1}};
    place->used = true;
    place->thread = place->start.Create();
  }
  for (const Place& place : places) {
    if (place.used) JoinThread(place.thread);
  }
  part.End();

  const double million_operations = 1e-6 * static_cast<double>(total * operations);
  Report report("t-test1", part);
  report.Value("time_s", part.wall_s(), "s", Better::kLower);
  report.Value("cpu_s", part.cpu_s(), "s", Better::kLower);
  report.Value("million_operations", million_operations, "1e6", Better::kHigher);
  report.Value("mops_per_elapsed_s", million_operations / part.wall_s(), "1e6/s", Better::kHigher);
  report.Value("mops_per_cpu_s", million_operations / std::max(part.cpu_s(), 1e-6), "1e6/s",
               Better::kHigher);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
