// SPDX-License-Identifier: BSD-3-Clause
// Threads are stopped anywhere in the allocator. No object that they hold is reported as leaked.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "instruments/leaks/examination.h"
#include "instruments/leaks/leak_fixture.h"
#include "instruments/profiles/sampler.h"
#include "os/memory_map.h"
#include "process/release.h"
#include "tcmalloc/tcmalloc.h"
#include "testing/random.h"
#include "testing/sanitizers.h"

namespace tcmalloc {
namespace {

constexpr size_t kSlots = 2000;
constexpr size_t kLost = 10;
constexpr int kSettled = 150;

// The threads' objects. Besides the stacks of the threads, this table is the only root.
std::array<std::atomic<void*>, kSlots> table;
std::atomic<bool> ends{false};
// Objects that the threads have allocated.
std::atomic<uint64_t> allocated{0};

// The work of the threads.

void Keep(SeededRandom& random, void* p) {
  ++allocated;
  if (p != nullptr) memset(p, 0, std::min<size_t>(tc_malloc_size(p), 64));
  tc_free(table[random.Below(kSlots)].exchange(p));
}

void AllocateSome(SeededRandom& random, int n) {
  for (; n > 0; --n) {
    const size_t size = random.Below(size_t{1} << random.Below(13));
    switch (random.Below(200)) {
      case 0:
        Keep(random, tc_malloc(random.Below(3 << 20)));
        break;
      case 1:
        Keep(random,
             tc_realloc(table[random.Below(kSlots)].exchange(nullptr), random.Between(1, 2 << 20)));
        break;
      case 2:
        tcmalloc_flush_this_thread_cache();
        break;
      case 3:
        if (random.OneIn(20)) tcmalloc_flush_thread_caches();
        break;
      case 4:
        if (random.OneIn(50)) Trim(GlobalHeap(), 0);
        break;
      case 5:
        Keep(random, tc_memalign(size_t{1} << random.Below(15), size));
        break;
      case 6: {
        // There are more objects than a bin holds, so batches and whole arrays are moved.
        std::array<void*, 3000> objects;
        for (void*& p : objects) p = tc_malloc(size % 512);
        for (void* const p : objects) tc_free(p);
        break;
      }
      default:
        Keep(random, tc_malloc(size));
    }
  }
}

void Work(uint64_t seed) {
  SeededRandom random(seed);
  while (!ends) {
    AllocateSome(random, 2000);
    // Starts threads that end soon, so that caches are inherited or emptied.
    const uint64_t next = random.Next();
    std::thread([next] {
      SeededRandom short_lived(next);
      AllocateSome(short_lived, 300);
    }).join();
  }
}

struct Result {
  bool settled = false;
  size_t unmarked = 0;
  uintptr_t first_unmarked[2 * kLost];
};

// Marks from the table and from the stacks and registers of the stopped threads. Nothing here
// allocates, in any heap.
void Mark(const WorldStop& world, Result* result) {
  SystemVirtualMemory vm;
  CheckMemory memory(vm);
  ObjectIndex index(memory);
  bool ok = index.Build(GlobalHeap());
  Marker marker(index, memory, {.max_pointer_offset = Marker::kAnyOffset});
  ok = ok && marker.Prepare() && marker.AddRange(AddressOf(&table), AddressOf(&table + 1));
  for (size_t i = 0; i < world.num_threads; ++i) {
    const StoppedThread& thread = world.threads[i];
    if (thread.is_caller) continue;
    constexpr uintptr_t kRedZone = 128;
    MemoryMapping stack;
    ok = ok && FindMemoryMapping(thread.stack_pointer, &stack) &&
         marker.AddStack(thread.stack_pointer - kRedZone, stack.end) &&
         marker.AddStack(AddressOf(thread.registers),
                         AddressOf(thread.registers + thread.num_registers));
  }
  ok = ok && marker.Run();
  result->settled = ok && index.settled();
  marker.ForEachUnmarked([&](const LiveObject& object) {
    if (result->unmarked < std::size(result->first_unmarked)) {
      result->first_unmarked[result->unmarked] = object.start;
    }
    ++result->unmarked;
  });
}

Result Check() {
  Result result;
  StopOutcome outcome;
  do {
    bool stopped = false;
    const auto mark = [](void* to, const WorldStop& world) {
      Mark(world, static_cast<Result*>(to));
    };
    outcome = WithHeapAtRest(GlobalHeap(), mark, &result, &stopped).outcome;
    EXPECT_TRUE(stopped);
  } while (outcome == StopOutcome::kNotInTime);
  EXPECT_EQ(outcome, StopOutcome::kDone);
  return result;
}

TEST(StoppedThreadsTest, LeakedObjectsAndNoOthersAreUnmarked) {
#if TESTED_WITH_TSAN
  GTEST_SKIP() << "ThreadSanitizer does not know the task that stops the threads";
#elif TESTED_WITH_ASAN
  GTEST_SKIP() << "AddressSanitizer has threads wait for one another when they start and end: for "
                  "stopped ones, for ever";
#endif
  if (IsTraced()) GTEST_SKIP() << "this process has a debugger, and can have one only";
  Heap& heap = ExistingHeap();
  heap.registry.SetInheritance(true);
  ASSERT_TRUE(SetSamplePeriod(heap, 64 << 10));
  // The test hides the leaked objects from the stack of the marking thread. The allocator's own
  // frames contain addresses of the first object of a span, and of the first object for each word
  // of the span's bitmap. The test leaks no such object.
  std::array<uintptr_t, kLost> hidden;
  std::vector<void*> others;
  for (size_t i = 0; i < kLost;) {
    void* const p = tc_calloc(1, 24 * (i + 1));
    const Look look;
    LiveObject object;
    ASSERT_TRUE(look.index.Find(AddressOf(p), &object));
    if (object.number % 64 == 0) {
      others.push_back(p);
    } else {
      hidden[i++] = ~AddressOf(p);
    }
  }
  for (void* const p : others) tc_free(p);
  constexpr int kThreads = 6;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(&Work, 9500 + t);
  size_t found_lost = 0;
  for (int settled = 0; settled < kSettled && !HasFailure();) {
    const uint64_t before_look = allocated;
    const Result result = Check();
    while (allocated < before_look + 1000) sched_yield();
    if (!result.settled) continue;
    ++settled;
    std::set<uintptr_t> lost(
        result.first_unmarked,
        result.first_unmarked + std::min(result.unmarked, std::size(result.first_unmarked)));
    EXPECT_EQ(result.unmarked, lost.size());
    for (const uintptr_t object : hidden) found_lost += lost.erase(~object);
    EXPECT_TRUE(lost.empty()) << "in flight, and taken for lost: " << *lost.begin();
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  // A stale address on the stack of a living thread may keep a few of them reachable.
  EXPECT_GT(found_lost, 0u);
  for (const uintptr_t object : hidden) tc_free(reinterpret_cast<void*>(~object));
  for (auto& slot : table) tc_free(slot.exchange(nullptr));
  SetSamplePeriod(heap, 0);
  Trim(heap, 0);
  heap.CheckInvariants();
  EXPECT_EQ(Look().index.num_objects(), 0u);
}

}  // namespace
}  // namespace tcmalloc
