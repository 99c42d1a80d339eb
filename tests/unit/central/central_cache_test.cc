// SPDX-License-Identifier: BSD-3-Clause
#include "central/central_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "testing/heap_fixture.h"
#include "testing/random.h"
#include "testing/touch_watch.h"

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

// Two threads allocate and free in every order through the central cache, in batches and smaller
// numbers. While a whole line batch is free, neither gets an object on a line on which the other
// one has an object. The threads share one shard, or have one each.
class CentralCacheTwoThreadsTest
    : public testing::TestWithParam<std::tuple<size_t, std::array<int, 2>>> {};

TEST_P(CentralCacheTwoThreadsTest, NoLineIsShared) {
  const auto [size, processors] = GetParam();
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

std::string NameOfProcessors(
    const testing::TestParamInfo<std::tuple<size_t, std::array<int, 2>>>& info) {
  const auto [size, processors] = info.param;
  return std::to_string(size) + "BytesOnProcessors" + std::to_string(processors[0]) + "And" +
         std::to_string(processors[1]);
}

constexpr std::array<int, 2> kOneProcessor{0, 0};
constexpr std::array<int, 2> kTwoProcessors{0, 4};

INSTANTIATE_TEST_SUITE_P(Classes, CentralCacheTwoThreadsTest,
                         testing::Combine(testing::Values(8, 16, 32, 48, 96, 112, 480),
                                          testing::Values(kOneProcessor, kTwoProcessors)),
                         NameOfProcessors);

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
  static size_t PagesOf(size_t bytes) { return bytes / TouchWatch::PageSize(); }

  TestHeap heap_;
  const SizeClass class_ = ClassForSize(512);
  const size_t batch_ = kSizeClasses.batch_size(class_);
  CentralFreeList& list_ = heap_.central.free_list(class_);
};

// Objects return to their spans, no matter which thread frees them, and the threads of the spans'
// shard get them. Of the objects that other threads allocated on another CPU, TakeLines stores to
// the lines. Nothing else is touched.
TEST_F(CentralCacheShardsTest, ObjectsGoHome) {
  const std::vector<void*> far = NewSpans(40, 4);
  const std::vector<void*> near = NewSpans(30, 4);
  EXPECT_EQ(heap_.ShardOf(far[0]), 0u);
  EXPECT_EQ(heap_.ShardOf(near[0]), 1u);
  for (size_t i = 0; i < far.size(); ++i) memset(far[i], static_cast<int>(i), 512);
  // One object of each span stays in use, so that the spans stay.
  const auto part = [&](const std::vector<void*>& objects, size_t span) {
    const size_t first = span * list_.objects_per_span();
    return std::vector<void*>(objects.begin() + static_cast<ptrdiff_t>(first),
                              objects.begin() + static_cast<ptrdiff_t>(first + batch_ - 1));
  };
  std::vector<void*> home = part(far, 0);
  const std::vector<void*> second = part(far, 1);
  home.insert(home.end(), second.begin(), second.end());
  {
    TouchWatch watch(TouchWatch::What::kStores);
    heap_.WatchSpansOf(&watch, home);
    heap_.central.Insert(class_, home.data(), home.size(), Origin::kOtherThreads);
    EXPECT_EQ(watch.touches().size(), PagesOf(2 * list_.span_bytes()));
  }
  EXPECT_EQ(list_.free_objects(), home.size());
  heap_.CheckInvariants();
  {
    TouchWatch watch(TouchWatch::What::kStores);
    heap_.WatchSpansOf(&watch, {far.back()});
    heap_.central.Insert(class_, &far.back(), 1, Origin::kOtherThreads);
    ASSERT_EQ(watch.touches().size(), 1u);
    EXPECT_EQ(reinterpret_cast<void*>(watch.touches()[0]), far.back());
  }
  for (size_t i = 0; i < far.size(); ++i) {
    EXPECT_EQ(static_cast<unsigned char*>(far[i])[0], static_cast<unsigned char>(i));
    EXPECT_EQ(static_cast<unsigned char*>(far[i])[511], static_cast<unsigned char>(i));
  }
  test_processor = 40;
  std::vector<void*> again = RemoveAll(heap_.central, class_, home.size());
  again.erase(std::remove(again.begin(), again.end(), far.back()), again.end());
  for (const void* const object : again) {
    EXPECT_EQ(std::count(home.begin(), home.end(), object), 1);
  }

  TouchWatch watch(TouchWatch::What::kAnything);
  heap_.WatchSpansOf(&watch, far);
  heap_.WatchSpansOf(&watch, near);
  test_processor = 30;
  const size_t free_before = list_.free_objects();
  heap_.central.Insert(class_, &far[2 * list_.objects_per_span()], batch_ - 1);
  heap_.central.Insert(class_, near.data(), batch_ - 1, Origin::kOtherThreads);
  EXPECT_EQ(list_.free_objects(), free_before + 2 * (batch_ - 1));
  EXPECT_TRUE(watch.touches().empty());
}

using CentralCacheShardsDeathTest = CentralCacheShardsTest;

// Objects that return to another shard are checked like all others. A second free does not touch an
// object whose pages no longer belong to the class: they may be unbacked.
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
  const std::vector<void*> batch(objects.begin(), objects.begin() + static_cast<ptrdiff_t>(batch_));
  std::vector<void*> freed = batch;
  freed.push_back(objects[3]);
  expect_death(freed, objects[3], twice);
  heap_.central.Insert(class_, &objects[5], 1, Origin::kOtherThreads);
  expect_death(batch, objects[5], twice);
  expect_death({objects[5]}, objects[5], twice);
  void* const inside = static_cast<char*>(objects[7]) + 16;
  expect_death({objects[6], inside}, inside,
               "not the start of an object, but a pointer into one of 512 bytes");

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
  constexpr int kCpus = static_cast<int>(kTuning.shards.max_of_cpus);
  const auto locks_now = [&] {
    std::vector<void*> locks;
    heap_.central.ForEachLock([&](auto& lock) { locks.push_back(&lock); });
    EXPECT_EQ(std::set<void*>(locks.begin(), locks.end()).size(), locks.size());
    return locks;
  };
  EXPECT_EQ(locks_now().size(), 1u);
  const SizeClass other_class = ClassForSize(64);
  std::vector<std::vector<void*>> objects;
  for (int p = 0; p < kCpus; ++p) {
    objects.push_back(NewSpans(p, 2));
    const size_t shards = static_cast<size_t>(p) + 1;
    EXPECT_EQ(locks_now().size(), 1 + shards + shards - 1);
    ASSERT_FALSE(
        Remove(heap_.central, other_class, heap_.central.free_list(other_class).objects_per_span())
            .empty());
    EXPECT_EQ(locks_now().size(), 1 + 2 * shards);
  }
  // While the locks are held for fork, no shard takes objects.
  for (int p = 0; p < kCpus; ++p) {
    SpinLock::BeginForkHold();
    heap_.central.ForEachLock([](auto& lock) { lock.HoldForFork(); });
    const size_t free_before = list_.free_objects();
    std::atomic<bool> done{false};
    std::thread other([&, p] {
      test_processor = p;
      heap_.central.Insert(class_, objects[static_cast<size_t>(p)].data(), 2);
      done = true;
    });
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    EXPECT_FALSE(done) << p;
    EXPECT_EQ(list_.free_objects(), free_before);
    SpinLock::EndForkHold();
    heap_.central.ForEachLock([](auto& lock) { lock.ReleaseAfterForkInParent(); });
    other.join();
    EXPECT_EQ(list_.free_objects(), free_before + 2);
  }
  heap_.CheckInvariants();
}

// Threads remove objects, write their number into them, pass some to each other and return the
// rest, while others drain the shards' kept spans.
TEST(CentralCacheTest, ManyThreads) {
  constexpr size_t kThreads = 8;
  constexpr int kSteps = 400;
  const SizeClass classes[] = {ClassForSize(8), ClassForSize(64), ClassForSize(1024),
                               ClassForSize(8192), ClassForSize(kMaxSmallSize)};
  struct Held {
    SizeClass c;
    void* object;
  };
  TestHeap heap;
  std::mutex mutex;
  std::vector<Held> passed_on;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(4711 + t);
      // Several threads run on one CPU, and each one now and then runs on others.
      const int home = static_cast<int>(t % 3);
      std::vector<Held> held;
      for (int step = 0; step < kSteps; ++step) {
        test_processor =
            random.OneIn(8) ? static_cast<int>(random.Below(2 * TestHeap::kShards)) : home;
        const SizeClass c = classes[random.Below(std::size(classes))];
        switch (random.Below(8)) {
          case 0:
          case 1:
          case 2: {
            const size_t n = random.Between(1, kSizeClasses.batch_size(c) + 3);
            for (void* const object : Remove(heap.central, c, n)) {
              *static_cast<size_t*>(object) = reinterpret_cast<uintptr_t>(object) ^ t;
              held.push_back({c, object});
            }
            break;
          }
          case 3: {
            const std::lock_guard<std::mutex> guard(mutex);
            for (size_t i = 0; i < 20 && !held.empty(); ++i) {
              *static_cast<size_t*>(held.back().object) ^= t;
              passed_on.push_back(held.back());
              held.pop_back();
            }
            break;
          }
          case 4: {
            const std::lock_guard<std::mutex> guard(mutex);
            for (size_t i = 0; i < 20 && !passed_on.empty(); ++i) {
              *static_cast<size_t*>(passed_on.back().object) ^= t;
              held.push_back(passed_on.back());
              passed_on.pop_back();
            }
            break;
          }
          case 5:
            if (random.OneIn(8)) heap.page_heap.DrainSpanCaches();
            break;
          default: {
            std::vector<void*> objects;
            std::vector<Held> kept;
            for (const Held& h : held) {
              if (h.c != c) {
                kept.push_back(h);
                continue;
              }
              ASSERT_EQ(*static_cast<size_t*>(h.object), reinterpret_cast<uintptr_t>(h.object) ^ t);
              objects.push_back(h.object);
            }
            held.swap(kept);
            if (!objects.empty()) heap.central.Insert(c, objects.data(), objects.size());
          }
        }
      }
      for (const Held& h : held) heap.central.Insert(h.c, &h.object, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Held& h : passed_on) heap.central.Insert(h.c, &h.object, 1);
  for (const SizeClass c : classes) EXPECT_EQ(heap.CentralObjects(c), heap.AllObjects(c));
  heap.page_heap.DrainSpanCaches();
  for (const SizeClass c : classes) EXPECT_EQ(heap.central.free_list(c).num_spans(), 0u);
  heap.CheckInvariants();
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
}

}  // namespace
}  // namespace tcmalloc
