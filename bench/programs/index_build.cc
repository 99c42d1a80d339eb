// SPDX-License-Identifier: BSD-3-Clause

// index-build: a search engine that rebuilds its index, after the description of a real one. The
// index has SHARDS shards of MIB each. THREADS threads take turns. In each round SHARDS of them
// rebuild all shards in parallel, each thread one shard, while the others sleep. A round begins
// when the previous one is done, and each thread has TURNS turns. A thread that rebuilds a shard
// drops its contents and reads documents until it is as large again. The index is of a column of a
// table: entries of different columns have different sizes, and every round indexes another column.
//
// A thread that has rebuilt a shard keeps free objects in its cache, of sizes that may not be
// needed soon, and sleeps. With PHASES 1 a turn consists of two phases (tcmalloc::ScopedPhase): one
// drops the contents, the other builds them. The library empties caches at the end of each phase.
// If the allocator has no phases, the program behaves as with PHASES 0.
//
// `rss_to_live` is the peak of resident memory divided by the most requested bytes that were in the
// index at once. The words of a document, which live while it is read, do not count.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <new>

#include "bench/common/arguments.h"
#include "bench/common/course.h"
#include "bench/common/object_list.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"
#include "tcmalloc/malloc_extension.h"

// These functions are null with other allocators.
extern "C" {
size_t tcmalloc_flush_this_thread_cache() noexcept __attribute__((weak));
size_t tcmalloc_flush_central_caches() noexcept __attribute__((weak));
}

namespace tcmalloc::bench {
namespace {

// The bytes of a column's entries. Columns have numbers, names, sentences, or texts.
struct Column {
  uint64_t smallest;
  uint64_t largest;
};
constexpr Column kColumns[] = {{96, 400}, {250, 2'000}, {1'000, 12'000}, {8'000, 600'000}};

constexpr size_t kWordsOfDocument = 32;
constexpr uint64_t kLongestWord = 48;
constexpr uint64_t kEntriesOfDocument = 4;

constexpr double kSampleEveryS = 0.05;
// Later samples are not kept.
constexpr double kLongestCourseS = 1800;

// One part of the index: entries by the hash of their keys, so that neighbours in a bucket were
// made at different times.
class Shard {
 public:
  // The requested bytes of all entries. Another thread may work on the shard meanwhile.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  void Add(uint64_t hash, size_t size) {
    buckets_[hash % std::size(buckets_)].Append(size);
    bytes_.store(bytes() + size, std::memory_order_relaxed);
  }

  void Drop() {
    for (ObjectList& bucket : buckets_) {
      const uint64_t bucket_bytes = bucket.bytes();
      bucket.FreeAll();
      bytes_.store(bytes() - bucket_bytes, std::memory_order_relaxed);
    }
  }

 private:
  ObjectList buckets_[1024];
  // Written by the thread whose turn it is, read by the one that takes the samples. Relaxed: no
  // other data depends on the number.
  std::atomic<uint64_t> bytes_{0};
};

// The words of a document, which are needed as long as it is read.
class Document {
 public:
  explicit Document(Random* random) {
    for (void*& word : words_) {
      const size_t size = random->FastBetween(1, kLongestWord);
      word = Allocate(size);
      memset(word, 1, size);
    }
  }
  ~Document() {
    for (void* const word : words_) free(word);
  }
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

 private:
  void* words_[kWordsOfDocument];
};

class Index {
 public:
  Index(uint64_t shards, uint64_t shard_bytes, bool phases, uint64_t seed)
      : shards_(shards), shard_bytes_(shard_bytes), phases_(phases), seed_(seed) {
    for (Shard& shard : shards_) new (&shard) Shard;
  }

  void DropShard(size_t number) {
    InPhase([&] { shards_[number].Drop(); });
  }

  void BuildShard(size_t number, uint64_t round) {
    InPhase([&] {
      Build(&shards_[number], kColumns[round % std::size(kColumns)],
            seed_ + round * shards_.size() + number);
    });
  }

  void Drop() {
    for (Shard& shard : shards_) shard.Drop();
  }

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < shards_.size(); ++i) sum += shards_[i].bytes();
    return sum;
  }

 private:
  template <typename Work>
  void InPhase(Work work) const {
    if (!phases_) return work();
    const ScopedPhase phase;
    work();
  }

  void Build(Shard* shard, const Column& column, uint64_t seed) const {
    Random random(seed);
    while (shard->bytes() < shard_bytes_) {
      const Document document(&random);
      for (uint64_t i = 0; i < kEntriesOfDocument && shard->bytes() < shard_bytes_; ++i) {
        const uint64_t size = random.FastBetween(column.smallest, column.largest);
        // The last entry fills the rest.
        const uint64_t left = shard_bytes_ - shard->bytes();
        shard->Add(random.Next(), std::max<uint64_t>(std::min(size, left), ObjectList::kSmallest));
      }
    }
  }

  MappedArray<Shard> shards_;
  const uint64_t shard_bytes_;
  const bool phases_;
  const uint64_t seed_;
};

// Counts the steps: even ones drop the index, odd ones build it. Threads sleep until their step.
class Steps {
 public:
  // Each step ends when `parts` threads have done their part.
  explicit Steps(uint64_t parts) : parts_(parts) {}

  void WaitFor(uint64_t step) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return step_ == step; });
  }

  // The last thread of a step calls at_end() before the next step begins.
  template <typename AtEnd>
  void PartDone(AtEnd at_end) {
    const std::lock_guard lock(mutex_);
    if (++parts_done_ < parts_) return;
    at_end();
    parts_done_ = 0;
    ++step_;
    changed_.notify_all();
  }

  // Sleeps no longer than `seconds`. Returns true if `steps` steps are done.
  bool WaitForEnd(uint64_t steps, double seconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                             [&] { return step_ == steps; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  const uint64_t parts_;
  uint64_t parts_done_ = 0;
  uint64_t step_ = 0;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Shards of an index, rebuilt by threads that take turns.");
  const uint64_t mb = arguments.Number("MB", 200, 1, 1 << 20);
  const bool phases_wanted = arguments.Number("PHASES", 1, 0, 1) != 0;
  const uint64_t turns = arguments.Number("TURNS", 3, 1, 1000);
  const uint64_t shards = arguments.Number("SHARDS", 4, 1, 1000);
  const uint64_t threads = arguments.Number("THREADS", 16, 1, kMostThreads);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();
  if (threads % shards != 0) FailUsage("THREADS is a multiple of SHARDS");

  const bool phases = phases_wanted && tcmalloc_flush_this_thread_cache != nullptr;
  const uint64_t rounds = threads / shards * turns;
  Index index(shards, mb * 1'000'000, phases, seed);
  Steps steps(shards);
  uint64_t most_bytes = 0;
  Course<3> course(kLongestCourseS, kSampleEveryS);
  const auto sample = [&] { return course.Sample(static_cast<double>(index.bytes()) / 1024); };

  double end_rss_kib = 0;
  // The threads and the sampling thread meet here.
  Barrier end(threads + 1);
  MeasuredPart part;
  RunThreads(threads + 1, [&](size_t thread) {
    if (thread == threads) {
      while (!steps.WaitForEnd(2 * rounds, kSampleEveryS)) sample();
      end_rss_kib = sample();
      end.Wait();
      return;
    }
    for (uint64_t mine = thread / shards; mine < rounds; mine += threads / shards) {
      const size_t shard = thread % shards;
      steps.WaitFor(2 * mine);
      index.DropShard(shard);
      steps.PartDone([] {});
      steps.WaitFor(2 * mine + 1);
      index.BuildShard(shard, mine);
      steps.PartDone([&] { most_bytes = std::max(most_bytes, index.bytes()); });
    }
    // Sleeping threads still have their caches; ended threads may not.
    end.Wait();
  });
  part.End();

  const double live_kib = static_cast<double>(most_bytes) / 1024;
  Report report("index-build", part);
  report.Value("rss_to_live", static_cast<double>(report.peak_rss_kib()) / live_kib, "1",
               Better::kLower);
  report.Value("live_kib", live_kib, "KiB", Better::kLower);
  report.Value("end_rss_kib", end_rss_kib, "KiB", Better::kLower);
  report.Value("time_s", part.wall_s(), "s", Better::kLower);
  report.Value("phases", phases ? 1 : 0, "1", Better::kHigher);
  report.Series("rss", {"time_s", "rss_kib", "live_kib"}, course.rows());
  report.Write();
  index.Drop();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
