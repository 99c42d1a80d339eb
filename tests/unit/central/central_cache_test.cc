// SPDX-License-Identifier: BSD-3-Clause
#include "central/central_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "central/shard.h"
#include "testing/heap_fixture.h"
#include "testing/random.h"
#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

// Removes objects and returns them in the order of their use.
std::vector<void*> Remove(CentralCache& central, SizeClass c, size_t n) {
  std::vector<void*> objects(n);
  objects.resize(central.Remove(c, objects.data(), n));
  std::reverse(objects.begin(), objects.end());
  return objects;
}

// Removes exactly `n` objects, in as many calls as this takes.
std::vector<void*> RemoveAll(CentralCache& central, SizeClass c, size_t n) {
  std::vector<void*> objects;
  while (objects.size() < n) {
    const std::vector<void*> some = Remove(central, c, n - objects.size());
    if (some.empty()) break;
    objects.insert(objects.end(), some.begin(), some.end());
  }
  return objects;
}

// Two threads with a shard each allocate and free in every order through the central cache, in
// batches and smaller numbers. While a whole line batch is free, neither gets an object on a line
// on which the other one has an object.
class CentralCacheTwoThreadsTest : public testing::TestWithParam<size_t> {};

TEST_P(CentralCacheTwoThreadsTest, NoLineIsShared) {
  const size_t size = GetParam();
  constexpr std::array<int, 2> processors{0, 4};
  TestHeap heap;
  const SizeClass c = ClassForSize(size);
  const size_t line = kSizeClasses.line_objects(c);
  const size_t batch = kSizeClasses.batch_size(c);
  CentralFreeList& list = heap.central.free_list(c);
  SeededRandom random(900 + size);
  const size_t max_held = 4 * batch;

  // Even if each object that the threads hold divides a line batch, the list has more of them. The
  // first line batch of each span stays in use, so that the spans stay.
  const size_t reserve = 12 * line * batch;
  std::vector<void*> kept;
  std::vector<void*> rest;
  for (const int processor : processors) {
    test_processor = processor;
    heap.central.shards().Current().AddThread();
    std::vector<void*> objects = RemoveAll(heap.central, c, reserve / 2);
    // Leaves no free object that the other thread could take.
    const std::vector<void*> more = RemoveAll(heap.central, c, list.free_objects());
    ASSERT_EQ(list.free_objects(), 0u);
    objects.insert(objects.end(), more.begin(), more.end());
    for (void* const object : objects) {
      const char* const start = static_cast<char*>(heap.SpanOf(object)->start_address());
      (static_cast<char*>(object) - start < static_cast<ptrdiff_t>(size * line) ? kept : rest)
          .push_back(object);
    }
  }
  list.Insert(list.shards().Ensure(0), rest.data(), rest.size());
  const size_t spans = list.num_spans();

  std::vector<void*> held[2];
  // For each cache line: the thread that has objects on it, and their number.
  std::map<uintptr_t, std::pair<size_t, size_t>> holder;
  const auto for_each_line = [&](const void* object, auto f) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(object);
    for (uintptr_t at = first / 64; at <= (first + size - 1) / 64; ++at) f(holder[at]);
  };
  for (void* const object : kept) {
    for_each_line(object, [](auto& entry) { entry = {2, entry.second + 1}; });
  }
  for (int step = 0; step < 1000; ++step) {
    const size_t thread = random.Below(2);
    test_processor = processors[thread];
    std::vector<void*>& mine = held[thread];
    if (random.OneIn(2)) {
      size_t n = random.OneIn(2) ? batch : line * random.Between(1, batch / line);
      if (mine.size() + n > max_held) continue;
      const std::vector<void*> objects = Remove(heap.central, c, n);
      for (void* const object : objects) {
        for_each_line(object, [&](auto& entry) {
          EXPECT_TRUE(entry.second == 0 || entry.first == thread) << "a shared line";
          entry = {thread, entry.second + 1};
        });
      }
      ASSERT_FALSE(HasFailure());
      mine.insert(mine.end(), objects.begin(), objects.end());
    } else if (!mine.empty()) {
      const size_t order = random.Below(4);
      if (order == 0) std::shuffle(mine.begin(), mine.end(), random.engine());
      if (order == 1) std::sort(mine.begin(), mine.end());
      if (order == 2) std::sort(mine.begin(), mine.end(), std::greater<>());
      const size_t n = std::min(mine.size(), random.Between(1, 3 * batch));
      heap.central.Insert(c, &mine[mine.size() - n], n);
      for (size_t i = mine.size() - n; i < mine.size(); ++i) {
        for_each_line(mine[i], [](auto& entry) { --entry.second; });
      }
      mine.resize(mine.size() - n);
    }
    if (step % 20 == 0) heap.CheckInvariants();
  }
  EXPECT_EQ(list.num_spans(), spans);
  test_processor = 0;
}

INSTANTIATE_TEST_SUITE_P(Classes, CentralCacheTwoThreadsTest,
                         testing::Values(8, 16, 32, 48, 96, 112, 480));

// Tests several CPUs: the n-th CPU that asks for a shard gets the n-th one.
class CentralCacheShardsTest : public testing::Test {
 protected:
  ~CentralCacheShardsTest() override { test_processor = 0; }

  // Removes all objects of `spans` new spans of a CPU's shard.
  std::vector<void*> NewSpans(int processor, size_t spans) {
    test_processor = processor;
    const std::vector<void*> objects =
        RemoveAll(heap_.central, class_, spans * list_.objects_per_span());
    EXPECT_EQ(list_.free_objects(), 0u);
    return objects;
  }

  TestHeap heap_;
  const SizeClass class_ = ClassForSize(512);
  CentralFreeList& list_ = heap_.central.free_list(class_);
};

using CentralCacheShardsDeathTest = CentralCacheShardsTest;

// A second free does not touch an object whose pages have left the class: they may be unbacked.
TEST_F(CentralCacheShardsDeathTest, DoubleFreesOfOthersFarObjects) {
  const std::vector<void*> objects = NewSpans(40, 2);
  const size_t per_span = list_.objects_per_span();
  const auto expect_death = [&](const std::vector<void*>& freed, const void* p,
                                const std::string& what) {
    EXPECT_EXIT(heap_.central.Insert(class_, freed.data(), freed.size(), Origin::kOtherThreads),
                testing::KilledBySignal(SIGABRT),
                testing::Eq("tcmalloc: free of " + PointerText(p) + ": " + what + "\n"));
  };
  const std::string twice = "double free, the object of 512 bytes is already free";
  test_processor = 30;
  heap_.central.Insert(class_, &objects[5], 1, Origin::kOtherThreads);
  expect_death({objects[4], objects[5]}, objects[5], twice);
  // The second span is deleted, and its memory becomes inaccessible.
  heap_.central.Insert(class_, &objects[per_span], per_span, Origin::kOtherThreads);
  ASSERT_EQ(list_.num_spans(), 1u);
  ASSERT_EQ(mprotect(objects[per_span], list_.span_bytes(), PROT_NONE), 0);
  const std::string gone = "no object is in use there (freed before, or never the start of one)";
  expect_death({objects[per_span]}, objects[per_span], gone);
  expect_death({objects[6], objects[per_span]}, objects[per_span], gone);
  ASSERT_EQ(mprotect(objects[per_span], list_.span_bytes(), PROT_READ | PROT_WRITE), 0);
}

// Before fork all locks of all shards are held, each once.
TEST_F(CentralCacheShardsTest, ForEachLockCoversAllShards) {
  constexpr int kCpus = static_cast<int>(kMaxShardsOfCpus);
  const auto locks_now = [&] {
    std::vector<void*> locks;
    heap_.central.ForEachLock([&](auto& lock) { locks.push_back(&lock); });
    EXPECT_EQ(std::set<void*>(locks.begin(), locks.end()).size(), locks.size());
    return locks;
  };
  EXPECT_EQ(locks_now().size(), 1 + kNumSizeClasses);
  std::vector<std::vector<void*>> objects;
  for (int p = 0; p < kCpus; ++p) {
    objects.push_back(NewSpans(p, 2));
    const size_t shards = static_cast<size_t>(p) + 1;
    EXPECT_EQ(locks_now().size(), 1 + kNumSizeClasses * shards);
  }
  // While the locks are held for fork, no shard takes objects.
  for (int p = 0; p < kCpus; ++p) {
    SpinLock::BeginForkHold();
    heap_.central.ForEachLock([](auto& lock) { lock.HoldForFork(); });
    const size_t free_before = list_.free_objects();
    std::atomic<bool> done{false};
    std::thread other = StartUntilAsleep([&, p] {
      test_processor = p;
      heap_.central.Insert(class_, objects[static_cast<size_t>(p)].data(), 2);
      done = true;
    });
    EXPECT_FALSE(done) << p;
    EXPECT_EQ(list_.free_objects(), free_before);
    SpinLock::EndForkHold();
    heap_.central.ForEachLock([](auto& lock) { lock.ReleaseAfterForkInParent(); });
    other.join();
    EXPECT_EQ(list_.free_objects(), free_before + 2);
  }
  heap_.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
