// SPDX-License-Identifier: BSD-3-Clause
// Runs many more threads than CPUs: threads free objects that other threads allocated, and threads
// live for a short time. ThreadSanitizer and AddressSanitizer check these tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

TEST(ThreadsTest, EveryEntryPointAndFreesByOtherThreads) {
  constexpr size_t kThreads = 8;
  constexpr int kSteps = 4000;
  EnsureHeap();
  Heap& heap = GlobalHeap();
  Trim(heap, 0);
  const HeapStats before = CollectStats(heap);
  // In a slot one thread leaves an object for any other: the only synchronisation between them.
  std::array<std::atomic<Held*>, 64> slots = {};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&slots, t] {
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
            if (Held* const other = slots[random.Below(slots.size())].exchange(note)) {
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
    const HeapStats s = CollectStats(heap);
    EXPECT_LE(s.in_use_bytes, SIZE_MAX / 2);
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  SeededRandom random(1);
  for (const std::atomic<Held*>& slot : slots) {
    if (Held* const note = slot.load()) {
      FreeAtRandom(*note, random);
      tc_free(note);
    }
  }
  Trim(heap, 0);
  heap.CheckInvariants();
  const HeapStats after = CollectStats(heap);
  EXPECT_EQ(after.in_use_bytes, before.in_use_bytes);
  EXPECT_LE(after.thread_caches, std::max<size_t>(before.thread_caches, 1));
  EXPECT_EQ(after.page_heap_free_bytes, 0u);
}

}  // namespace
}  // namespace tcmalloc
