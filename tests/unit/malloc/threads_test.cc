// SPDX-License-Identifier: BSD-3-Clause
// Runs many more threads than CPUs: threads free objects that other threads allocated, and threads
// live for a short time. ThreadSanitizer and AddressSanitizer check these tests.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "malloc/program.h"
#include "malloc/tc_names.h"
#include "process/heap.h"
#include "process/release.h"
#include "stats/stats.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

class ThreadsTest : public testing::Test {
 protected:
  ThreadsTest() {
    EnsureHeap();
    Trim(GlobalHeap(), 0);
    before_ = CollectStats(GlobalHeap());
  }

  // Checks that the heap is as it was before. Requires: all threads have ended and everything was
  // freed.
  void ExpectNothingLeft() {
    Heap& heap = GlobalHeap();
    Trim(heap, 0);
    heap.CheckInvariants();
    const HeapStats after = CollectStats(heap);
    EXPECT_EQ(after.in_use_bytes, before_.in_use_bytes);
    EXPECT_LE(after.thread_caches, std::max<size_t>(before_.thread_caches, 1));
    EXPECT_EQ(after.page_heap_free_bytes, 0u);
  }

  HeapStats before_;
};

// A slot in which one thread leaves an object for any other. It is the only synchronisation between
// them.
class Exchange {
 public:
  ~Exchange() { EXPECT_TRUE(Empty()); }
  // Stores `object`; returns the former content, or null.
  Held* Swap(size_t slot, Held* object) {
    return slots_[slot].exchange(object, std::memory_order_acq_rel);
  }
  bool Empty() const {
    for (const auto& slot : slots_) {
      if (slot.load() != nullptr) return false;
    }
    return true;
  }
  static constexpr size_t kSlots = 64;

 private:
  std::atomic<Held*> slots_[kSlots] = {};
};

TEST_F(ThreadsTest, EveryEntryPointAndFreesByOtherThreads) {
  constexpr size_t kThreads = 8;
  constexpr int kSteps = 4000;
  Exchange exchange;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&exchange, t] {
      SeededRandom random(777 + t);
      std::vector<Held> held;
      for (int step = 0; step < kSteps && !testing::Test::HasFailure(); ++step) {
        if (held.empty() || (held.size() < 200 && random.OneIn(2))) {
          held.push_back(AllocateAtRandom(random));
          continue;
        }
        std::swap(held[random.Below(held.size())], held.back());
        switch (random.Below(4)) {
          case 0: {
            // The record about the object is also an object of this allocator.
            Held* const note = static_cast<Held*>(tc_malloc(sizeof(Held)));
            *note = held.back();
            held.pop_back();
            if (Held* const other = exchange.Swap(random.Below(Exchange::kSlots), note)) {
              FreeAtRandom(*other, random);
              tc_free(other);
            }
            break;
          }
          case 1:
            ReallocateAtRandom(&held.back(), random);
            break;
          default:
            FreeAtRandom(held.back(), random);
            held.pop_back();
        }
        if (step % 1500 == 1499) tc_malloc_trim(0);
      }
      for (const Held& h : held) FreeAtRandom(h, random);
    });
  }
  // Another thread reads the statistics meanwhile.
  for (int i = 0; i < 50; ++i) {
    const HeapStats s = CollectStats(GlobalHeap());
    EXPECT_LE(s.in_use_bytes, SIZE_MAX / 2);
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  SeededRandom random(1);
  for (size_t slot = 0; slot < Exchange::kSlots; ++slot) {
    if (Held* const note = exchange.Swap(slot, nullptr)) {
      FreeAtRandom(*note, random);
      tc_free(note);
    }
  }
  ExpectNothingLeft();
}

// One thread allocates, another frees: memory must not pile up in the second thread's cache.
TEST_F(ThreadsTest, ProducerAndConsumer) {
  constexpr size_t kObjects = 40000;
  constexpr size_t kRing = 512;
  std::atomic<void*> ring[kRing] = {};
  std::thread consumer([&ring] {
    for (size_t i = 0; i < kObjects; ++i) {
      std::atomic<void*>& slot = ring[i % kRing];
      void* object;
      while ((object = slot.exchange(nullptr, std::memory_order_acq_rel)) == nullptr) {
        std::this_thread::yield();
      }
      ASSERT_EQ(*static_cast<size_t*>(object), i);
      tc_free(object);
    }
  });
  size_t peak = 0;
  for (size_t i = 0; i < kObjects; ++i) {
    size_t* const object = static_cast<size_t*>(tc_malloc(1000));
    ASSERT_NE(object, nullptr);
    *object = i;
    std::atomic<void*>& slot = ring[i % kRing];
    while (slot.load(std::memory_order_acquire) != nullptr) std::this_thread::yield();
    slot.store(object, std::memory_order_release);
    if (i % 1000 == 0) {
      const HeapStats s = CollectStats(GlobalHeap());
      peak = std::max(peak, s.system_bytes - s.released_bytes);
    }
  }
  consumer.join();
  // Both caches and the ring hold much less than the bytes that passed through.
  EXPECT_LE(peak - (before_.system_bytes - before_.released_bytes), size_t{8} << 20);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace tcmalloc
