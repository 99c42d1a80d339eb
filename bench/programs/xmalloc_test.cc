// SPDX-License-Identifier: BSD-3-Clause

// xmalloc-test: after Lever and Boreham ("malloc() Performance in a Multithreaded Linux
// Environment", 2000). Threads that only allocate hand batches of objects to threads that only
// free: every object is freed by another thread than allocated it. Runs for a fixed time and counts
// the objects.
//
//   xmalloc-test [-w WORKERS] [-t SECONDS] [-s SIZE] [-r SEED]
//
// WORKERS threads allocate and as many free. SIZE 0 means random sizes from 8 bytes to 2 KiB, small
// ones more often.
#include <unistd.h>

#include <atomic>

#include "bench/common/arguments.h"
#include "bench/common/bounded_queue.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr size_t kObjectsPerBatch = 4096;
constexpr size_t kBatchesPerWorker = 8;  // the most batches per worker in the queue
constexpr uint64_t kMostSizeShift = 8;   // random sizes are 8 bytes, shifted left by up to this

struct Load {
  uint64_t workers = 2;
  double seconds = 1;
  uint64_t size = 64;
  uint64_t seed = 1;
};

Load ParseLoad(int argc, char** argv) {
  Load load;
  for (int option; (option = getopt(argc, argv, "w:t:s:r:")) != -1;) {
    switch (option) {
      case 'w':
        load.workers = ParseNumber("-w", optarg, 1, kMostThreads / 2);
        break;
      case 't':
        load.seconds = ParseSeconds("-t", optarg);
        break;
      case 's':
        load.size = ParseNumber("-s", optarg, 0, 1 << 30);
        break;
      case 'r':
        load.seed = ParseNumber("-r", optarg, 0, UINT64_MAX);
        break;
      default:
        FailUsage("usage: xmalloc-test [-w WORKERS] [-t SECONDS] [-s SIZE] [-r SEED]");
    }
  }
  if (optind != argc) FailUsage("unexpected argument %s", argv[optind]);
  return load;
}

// A batch is itself an allocation, which is passed on with its objects.
struct Batch {
  unsigned char* objects[kObjectsPerBatch];
  uint32_t sizes[kObjectsPerBatch];
};

class Exchange {
 public:
  explicit Exchange(const Load& load) : load_(load), queue_(load.workers * kBatchesPerWorker) {}

  void Produce(size_t worker, double deadline) {
    Random random(load_.seed + worker);
    while (Now() < deadline) {
      auto* const batch = static_cast<Batch*>(Allocate(sizeof(Batch)));
      for (size_t i = 0; i < kObjectsPerBatch; ++i) {
        const size_t size = load_.size != 0 ? load_.size : RandomSize(&random);
        batch->objects[i] = static_cast<unsigned char*>(Allocate(size));
        batch->sizes[i] = static_cast<uint32_t>(size);
        memset(batch->objects[i], static_cast<unsigned char>(i), size);
      }
      queue_.Push(batch);
    }
    if (producers_left_.fetch_sub(1) == 1) queue_.Close();
  }

  void Consume() {
    Batch* batch;
    uint64_t count = 0;
    while (queue_.Pop(&batch)) {
      for (size_t i = 0; i < kObjectsPerBatch; ++i) {
        unsigned char* const object = batch->objects[i];
        const auto expected = static_cast<unsigned char>(i);
        if (object[0] != expected || object[batch->sizes[i] - 1] != expected) FailCorrupt();
        free(object);
      }
      free(batch);
      count += kObjectsPerBatch;
    }
    freed_.fetch_add(count);
  }

  uint64_t freed() const { return freed_; }

 private:
  static size_t RandomSize(Random* random) {
    // Each step is half as frequent as the one below.
    const int shift = __builtin_ctzll(random->Next() | uint64_t{1} << kMostSizeShift);
    return size_t{8} << shift;
  }

  const Load& load_;
  BoundedQueue<Batch*> queue_;
  // Each thread changes these counts once, at its end.
  std::atomic<uint64_t> producers_left_ = load_.workers;
  std::atomic<uint64_t> freed_ = 0;
};

void Main(int argc, char** argv) {
  const Load load = ParseLoad(argc, argv);
  Exchange exchange(load);
  MeasuredPart part;
  const double deadline = Now() + load.seconds;
  RunThreads(2 * load.workers, [&](size_t thread) {
    if (thread % 2 == 0) {
      exchange.Produce(thread / 2, deadline);
    } else {
      exchange.Consume();
    }
  });
  part.End();
  Report report("xmalloc-test", part);
  report.Value("objects_per_s", static_cast<double>(exchange.freed()) / part.wall_s(), "1/s",
               Better::kHigher);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
