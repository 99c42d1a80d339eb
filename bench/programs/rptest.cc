// SPDX-License-Identifier: BSD-3-Clause

// rptest: each thread holds BLOCKS blocks of random sizes. In every loop it frees OPERATIONS of
// them, spread over the array, and allocates as many. Every CROSS_RATE loops a thread hands a batch
// of new blocks to another thread, which frees them; CROSS_RATE 0: never.
//
// MODE 0: random sizes, 1: the smallest only. SIZE_MODE: how random sizes are distributed, 0:
// evenly, 1: with a probability that falls linearly, 2: exponentially.
#include <algorithm>
#include <atomic>
#include <utility>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

struct Load {
  uint64_t threads;
  uint64_t mode;
  uint64_t size_mode;
  uint64_t cross_rate;
  uint64_t loops;
  uint64_t blocks;
  uint64_t operations;
  uint64_t smallest;
  uint64_t largest;
};

uint32_t RandomSize(const Load& load, Random* random) {
  if (load.mode == 1) return static_cast<uint32_t>(load.smallest);
  const uint64_t range = load.largest - load.smallest + 1;
  uint32_t above_smallest = 0;
  if (load.size_mode == 0) {
    above_smallest = random->FastBelow(range);
  } else if (load.size_mode == 1) {
    above_smallest = std::min(random->FastBelow(range), random->FastBelow(range));
  } else {
    // Half of the sizes in half of the range, a quarter in a quarter of it, ...
    constexpr uint64_t kMostHalvings = 8;
    const int halvings = __builtin_ctzll(random->Next() | uint64_t{1} << kMostHalvings);
    above_smallest = random->FastBelow(std::max<uint64_t>(range >> halvings, 1));
  }
  return static_cast<uint32_t>(load.smallest) + above_smallest;
}

// Blocks on their way to another thread: one allocation, with room for `count` of them.
struct Parcel {
  Parcel* next;
  uint64_t count;
  Object blocks[];

  void Free() {
    for (uint64_t i = 0; i < count; ++i) {
      blocks[i].Check();
      free(blocks[i].memory);
    }
    free(this);
  }
};

// The most parcels in a mailbox: memory must not depend on how long a thread waits for a CPU.
constexpr uint64_t kMostParcels = 4;

// Parcels that others have sent to a thread and that it has not yet taken.
struct alignas(64) Mailbox {
  std::atomic<Parcel*> first;
  // Parcels that were sent and not yet taken. Relaxed: it only decides which thread frees a parcel.
  std::atomic<uint64_t> count;

  bool full() const { return count.load(std::memory_order_relaxed) >= kMostParcels; }
  void Send(Parcel* parcel) {
    count.fetch_add(1, std::memory_order_relaxed);
    // Release: the thread that takes the parcel sees it complete.
    parcel->next = first.load(std::memory_order_relaxed);
    while (!first.compare_exchange_weak(parcel->next, parcel, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }
  void FreeAll() {
    Parcel* parcel = first.exchange(nullptr, std::memory_order_acquire);
    while (parcel != nullptr) {
      count.fetch_sub(1, std::memory_order_relaxed);
      std::exchange(parcel, parcel->next)->Free();
    }
  }
};

class Worker {
 public:
  Worker(const Load& load, uint64_t seed, Mailbox* own, Mailbox* neighbour, Object* blocks)
      : load_(load), random_(seed), own_(own), neighbour_(neighbour), blocks_(blocks) {}

  void Run() {
    for (uint64_t loop = 0; loop < load_.loops; ++loop) {
      ReplaceSome();
      if (load_.cross_rate == 0 || loop % load_.cross_rate != 0) continue;
      SendSome();
      own_->FreeAll();
    }
    for (uint64_t i = 0; i < load_.blocks; ++i) Free(&blocks_[i]);
  }

 private:
  Object NewBlock() {
    const Object block = Object::New(RandomSize(load_, &random_), ++marks_);
    block.MarkThroughout();
    return block;
  }
  static void Free(Object* block) {
    if (block->memory == nullptr) return;
    block->Check();
    free(block->memory);
    block->memory = nullptr;
  }

  void ReplaceSome() {
    const uint64_t first = random_.FastBelow(load_.blocks);
    const uint64_t step = random_.FastBetween(1, 31);
    for (uint64_t i = 0; i < load_.operations; ++i) Free(Block(first + i * step));
    for (uint64_t i = 0; i < load_.operations; ++i) {
      Object* const block = Block(first + i * step);
      Free(block);  // the slot is still empty when the steps reach it again
      *block = NewBlock();
    }
  }
  Object* Block(uint64_t index) { return &blocks_[index % load_.blocks]; }

  void SendSome() {
    auto* const parcel =
        static_cast<Parcel*>(Allocate(sizeof(Parcel) + load_.operations * sizeof(Object)));
    parcel->count = load_.operations;
    for (uint64_t i = 0; i < parcel->count; ++i) parcel->blocks[i] = NewBlock();
    if (neighbour_->full()) {
      parcel->Free();
    } else {
      neighbour_->Send(parcel);
    }
  }

  const Load& load_;
  Random random_;
  Mailbox* const own_;
  Mailbox* const neighbour_;
  Object* const blocks_;
  uint32_t marks_ = 0;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Threads replace blocks of random sizes and exchange some.");
  Load load;
  load.threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  load.mode = arguments.Number("MODE", 0, 0, 1);
  load.size_mode = arguments.Number("SIZE_MODE", 1, 0, 2);
  load.cross_rate = arguments.Number("CROSS_RATE", 2, 0, 1'000'000'000);
  load.loops = arguments.Number("LOOPS", 15'000, 1, 1'000'000'000);
  load.blocks = arguments.Number("BLOCKS", 1000, 1, 100'000'000);
  load.operations = arguments.Number("OPERATIONS", 100, 1, 1'000'000);
  load.smallest = arguments.Number("SMALLEST", 8, 1, 1 << 30);
  load.largest = arguments.Number("LARGEST", 16'000, load.smallest, 1 << 30);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  MappedArray<Mailbox> mailboxes(load.threads);
  MappedArray<Object> blocks(load.threads * load.blocks);
  MeasuredPart part;
  RunThreads(load.threads, [&](size_t thread) {
    Worker(load, seed + thread, &mailboxes[thread], &mailboxes[(thread + 1) % load.threads],
           &blocks[thread * load.blocks])
        .Run();
  });
  for (Mailbox& mailbox : mailboxes) mailbox.FreeAll();
  part.End();
  ReportTime("rptest", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
