// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/thread_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "central/object_words.h"
#include "testing/random.h"
#include "testing/touch_watch.h"
#include "thread_cache/bin_policy.h"
#include "thread_cache/cache_budget.h"
#include "thread_cache/cache_fixture.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kCacheSeed = 9001;

// The program's objects, each filled with a pattern of its own; no two overlap.
class Model {
 public:
  void Add(SizeClass c, void* object) {
    ASSERT_NE(object, nullptr);
    ASSERT_TRUE(objects_.insert(object).second) << "handed out twice";
    const auto at = objects_.find(object);
    const size_t size = kSizeClasses.size(c);
    if (at != objects_.begin()) {
      ASSERT_LE(static_cast<char*>(*std::prev(at)) + size, static_cast<char*>(object));
    }
    if (std::next(at) != objects_.end()) {
      ASSERT_LE(static_cast<char*>(object) + size, static_cast<char*>(*std::next(at)));
    }
    memset(object, Pattern(object), std::min<size_t>(size, 64));
    list_.push_back(object);
  }
  void* TakeAny(SizeClass c, SeededRandom& random) {
    std::swap(list_[random.Below(list_.size())], list_.back());
    void* const object = list_.back();
    list_.pop_back();
    objects_.erase(object);
    for (size_t i = 0; i < std::min<size_t>(kSizeClasses.size(c), 64); ++i) {
      EXPECT_EQ(static_cast<unsigned char*>(object)[i], Pattern(object));
    }
    return object;
  }
  size_t size() const { return list_.size(); }

 private:
  static unsigned char Pattern(const void* object) {
    return static_cast<unsigned char>(reinterpret_cast<uintptr_t>(object) >> 3);
  }
  std::set<void*> objects_;
  std::vector<void*> list_;
};

// A bin is full exactly at the policy's limits, no matter what its arrays' memory contained before
// and where the mark of another limit was.
TEST(ThreadCacheTest, FullExactlyAtTheLimitsOfThePolicy) {
  CacheTestHeap heap;
  std::vector<std::pair<BinSlot*, size_t>> dirty;
  for (size_t bytes = 64; bytes <= (size_t{16} << 10); bytes += 64) {
    dirty.emplace_back(static_cast<BinSlot*>(heap.arena.Allocate(bytes)), bytes);
    std::fill_n(dirty.back().first, bytes / sizeof(BinSlot), kFullMark);
  }
  for (const auto& [memory, bytes] : dirty) heap.arena.Free(memory, bytes);
  for (const size_t size : {size_t{8}, size_t{64}, size_t{1024}, size_t{8192}}) {
    const SizeClass c = ClassForSize(size);
    TestThread thread(heap.registry);
    thread.RaiseLimitTo(size_t{1} << 20);
    size_t limit = 0;
    uint8_t overages = 0;
    size_t count = 0;
    // Allocations make the limit grow to its maximum, frees make it shrink again.
    while (limit != bin_policy::MaxLimit(c)) {
      ASSERT_NE(thread.cache()->Allocate(c), nullptr);
      count = thread.CachedObjects(c);
      limit = bin_policy::LimitAfterUnderflow(c, limit);
      ASSERT_LT(count, bin_policy::RefillCount(c, limit)) << size << " bytes, limit " << limit;
      thread.table().CheckInvariants();
      while (thread.slot().BeginAccess()->Pop(c) != nullptr) thread.slot().EndAccess();
      thread.slot().EndAccess();
      count = 0;
    }
    for (int times_full = 0; times_full < 100;) {
      void* object;
      ASSERT_EQ(heap.central.Remove(c, &object, 1), 1u);
      const bool pushed = thread.slot().BeginAccess()->Push(c, object);
      thread.slot().EndAccess();
      ASSERT_EQ(pushed, count < limit) << size << " bytes, " << count << " of " << limit;
      if (!pushed) {
        thread.cache()->Free(c, object);
        thread.table().CheckInvariants();
        const bin_policy::Overflow overflow = bin_policy::DecideOverflow(c, limit, overages, false);
        count -= overflow.release;
        limit = overflow.limit;
        overages = overflow.overages;
        ++times_full;
      }
      ++count;
      ASSERT_EQ(thread.CachedObjects(c), count);
    }
    EXPECT_EQ(limit, bin_policy::Batch(c));
    thread.Exit();
  }
}

// A collection that takes many objects from a bin, in several pieces, does not count as use: the
// next collection still finds the bin unused.
TEST(ThreadCacheTest, ACollectionIsNoUseOfABin) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  thread.RaiseLimitTo(size_t{1} << 20);
  const SizeClass c = ClassForSize(8);
  const size_t max = bin_policy::MaxLimit(c);
  std::vector<void*> objects;
  for (size_t i = 0; i < 20 * max; ++i) objects.push_back(thread.Allocate(c));
  size_t count = max * 3 / 4;
  while (thread.CachedObjects(c) < count) {
    thread.Free(c, objects.back());
    objects.pop_back();
  }
  // This collection finds that the bin was used.
  thread.cache()->CollectGarbage();
  ASSERT_EQ(thread.CachedObjects(c), count);
  size_t limit = max;
  for (int collection = 0; collection < 4; ++collection) {
    const bin_policy::Collection plan =
        bin_policy::DecideCollection(c, {.count = count, .limit = limit, .unused_for = 1});
    if (collection == 0) {
      ASSERT_GT(plan.release, kMaxMoveObjects);
    }
    thread.cache()->CollectGarbage();
    thread.table().CheckInvariants();
    count -= plan.release;
    limit = plan.limit;
    ASSERT_EQ(thread.CachedObjects(c), count) << "collection " << collection;
    ASSERT_EQ(thread.cache()->claimed_bytes() - thread.table().array_bytes(), limit * 8)
        << "collection " << collection;
  }
}

// While the owner gets the memory for a larger bin, another thread empties the cache. The owner
// then drops its decision about the former bin.
TEST(ThreadCacheTest, ADecisionDoesNotOutliveTheBin) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  const SizeClass c = ClassForSize(64);
  const SizeClass other = ClassForSize(1024);
  std::vector<void*> objects;
  void* const of_other = thread.Allocate(other);
  // Allocates until the bin is empty and a larger limit no longer fits into the array.
  size_t limit = 0;
  size_t capacity = 0;
  do {
    limit = bin_policy::LimitAfterUnderflow(c, limit);
    if (limit > capacity) {
      capacity = BinArray::CapacityOf(BinArray::BytesFor(bin_policy::CapacityFor(c, limit)));
    }
    for (size_t i = 0; i < limit; ++i) objects.push_back(thread.Allocate(c));
    ASSERT_EQ(thread.CachedObjects(c), 0u);
  } while (bin_policy::LimitAfterUnderflow(c, limit) <= capacity || limit < 16);
  const size_t next = bin_policy::LimitAfterUnderflow(c, limit);
  // The memory for the larger array must come from the OS.
  const size_t bytes = BinArray::BytesFor(bin_policy::CapacityFor(c, next));
  while (heap.arena.AllocateWithoutGrowing(bytes) != nullptr) {
  }
  bool taken = false;
  heap.vm.OnNextMap([&] {
    taken = heap.registry.FlushAll(nullptr) > 0;
    EXPECT_EQ(thread.cache()->claimed_bytes(), 0u);
  });
  objects.push_back(thread.Allocate(c));
  ASSERT_NE(objects.back(), nullptr);
  ASSERT_TRUE(taken);
  EXPECT_EQ(thread.cache()->claimed_bytes(), 0u);
  EXPECT_EQ(thread.table().array_bytes(), 0u);
  EXPECT_TRUE(heap.Conserved(c, objects.size()));
  // The bin starts again like a new one.
  objects.push_back(thread.Allocate(c));
  EXPECT_EQ(thread.cache()->claimed_bytes() - thread.table().array_bytes(),
            bin_policy::InitialLimit(c) * 64);
  thread.table().CheckInvariants();
  thread.Free(other, of_other);
  for (void* const object : objects) thread.Free(c, object);
}

TEST(ThreadCacheTest, ATakenCacheIsNotTouched) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  for (const size_t size : {size_t{8}, size_t{1024}, kMaxSmallSize}) {
    const SizeClass c = ClassForSize(size);
    thread.EarnBin(c);
    thread.Use(c, 5);
    const size_t cached = thread.CachedObjects(c);
    ASSERT_GT(cached, 0u);
    const size_t arrays = thread.table().array_bytes();
    thread.table().bins().bytes_until_sample = 12345;
    thread.Take();
    std::vector<void*> objects;
    for (size_t i = 1; i <= 300; ++i) {
      objects.push_back(thread.Allocate(c));
      ASSERT_TRUE(heap.Conserved(c, i));
    }
    EXPECT_EQ(std::set<void*>(objects.begin(), objects.end()).size(), objects.size());
    EXPECT_EQ(thread.cache()->Flush(), 0u);
    for (void* const object : objects) thread.Free(c, object);
    EXPECT_TRUE(heap.Conserved(c, 0));
    EXPECT_EQ(thread.CachedObjects(c), cached);
    EXPECT_EQ(thread.table().array_bytes(), arrays);
    EXPECT_EQ(thread.table().bins().bytes_until_sample, 12345u);
    thread.PutBack();
    thread.table().CheckInvariants();
    thread.cache()->Flush();
  }
}

TEST(ThreadCacheTest, TheSlowPathTakesFromTheBin) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  EXPECT_EQ(thread.table().bins().bytes_until_sample, Countdown::kNever);
  const SizeClass c = ClassForSize(64);
  void* const object = thread.Allocate(c);
  thread.Free(c, object);
  thread.cache()->SetSample(3, 1);
  EXPECT_TRUE(thread.cache()->CountAllocation(64).sample);
  EXPECT_EQ(thread.cache()->Allocate(c), object);
}

// Random operations, where each mapping in turn fails.
TEST(ThreadCacheTest, OutOfMemoryAtEveryMapping) {
  for (const bool only_once : {false, true}) {
    for (size_t nth = 1; nth <= 20; ++nth) {
      SCOPED_TRACE(testing::Message() << "mapping " << nth << (only_once ? " alone" : ""));
      CacheTestHeap heap;
      TestThread thread(heap.registry);
      ASSERT_NE(thread.cache(), nullptr);
      heap.vm.FailMap(nth, only_once ? 1 : FakeVirtualMemory::kForever);
      std::vector<Model> models(kNumSizeClasses);
      SeededRandom random(kCacheSeed + nth);
      size_t refused = 0;
      int steps_left = 2000;  // counted once a mapping has failed
      for (int step = 0; step < 100000 && steps_left > 0; ++step) {
        if (heap.vm.map_failures() > 0) --steps_left;
        // Uses one class for a while, so that its bin grows.
        const size_t i = 1 + (static_cast<size_t>(step) / 100 * 7) % (kNumSizeClasses - 1);
        const SizeClass c = static_cast<SizeClass>(i);
        if (models[i].size() == 0 || !random.OneIn(3)) {
          void* const object = thread.Allocate(c);
          if (object == nullptr) {
            ++refused;
          } else {
            ASSERT_NO_FATAL_FAILURE(models[i].Add(c, object));
          }
        } else {
          thread.Free(c, models[i].TakeAny(c, random));
        }
        if (random.OneIn(300)) thread.cache()->CollectGarbage();
        if (random.OneIn(1000)) {
          const size_t cached = thread.CachedBytes();
          ASSERT_EQ(thread.cache()->Flush(), cached);
        }
        if (step % 100 == 99) {
          thread.table().CheckInvariants();
          ASSERT_TRUE(heap.Conserved(c, models[i].size()));
        }
      }
      EXPECT_EQ(steps_left, 0);
      if (!only_once) {
        EXPECT_GT(refused, 0u);
      }
      for (size_t i = 1; i < kNumSizeClasses; ++i) {
        const SizeClass c = static_cast<SizeClass>(i);
        while (models[i].size() > 0) thread.Free(c, models[i].TakeAny(c, random));
        ASSERT_TRUE(heap.Conserved(c, 0));
      }
      heap.vm.StopFailing();
      const SizeClass c = ClassForSize(8192);
      void* const object = thread.Allocate(c);
      ASSERT_NE(object, nullptr);
      thread.Free(c, object);
      thread.Exit();
      EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
      heap.CheckInvariants();
    }
  }
}

std::string DoubleFree(SizeClass c, const void* object) {
  return DoubleFreeLine(object, kSizeClasses.size(c));
}

TEST(ThreadCacheDeathTest, AnImmediateSecondFree) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  thread.RaiseLimitTo(2 * kMaxSmallSize);
  for (const size_t size : {size_t{8}, size_t{48}, size_t{8192}, kMaxSmallSize}) {
    const SizeClass c = ClassForSize(size);
    thread.EarnBin(c);
    void* const object = thread.Allocate(c);
    thread.Free(c, object);
    EXPECT_MISUSE(thread.Free(c, object), DoubleFree(c, object));
  }
}

TEST(ThreadCacheTest, LargeObjectsAreKeptOnlyWhereTheyAreUsedOften) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  thread.RaiseLimitTo(size_t{24} << 20);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const bool large = kSizeClasses.size(c) >= kLateBytes;
    const size_t uses = bin_policy::UsesWithoutBin(c);
    ASSERT_EQ(uses > 0, large);
    for (size_t use = 0; use < uses; use += 2) {
      void* const object = thread.Allocate(c);
      ASSERT_NE(object, nullptr);
      thread.Free(c, object);
      ASSERT_EQ(thread.CachedObjects(c), 0u) << kSizeClasses.size(c) << " use " << use;
    }
    thread.Free(c, thread.Allocate(c));
    ASSERT_GE(thread.CachedObjects(c), 1u) << kSizeClasses.size(c);
  }
  // After a flush a class needs frequent use again before the thread keeps its objects.
  thread.cache()->Flush();
  const SizeClass c = ClassForSize(kMaxSmallSize);
  thread.Free(c, thread.Allocate(c));
  EXPECT_EQ(thread.CachedObjects(c), 0u);
}

// One thread allocates objects of many sizes, and others only free them, each some of every size.
// Together their caches hold at most a part of the budget of each size, although it has room for
// more.
TEST(ThreadCacheTest, ThreadsThatOnlyFreeKeepAPartOfTheBudget) {
  constexpr size_t kThreads = 300;
  constexpr size_t kFreesOfEach = 20;
  CacheTestHeap heap;
  TestThread producer(heap.registry);
  std::vector<std::unique_ptr<TestThread>> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.push_back(std::make_unique<TestThread>(heap.registry));
  }
  const auto pass_on = [&](std::initializer_list<size_t> sizes, size_t rounds) {
    for (size_t round = 0; round < rounds; ++round) {
      for (const auto& thread : threads) {
        for (const size_t size : sizes) {
          const SizeClass c = ClassForSize(size);
          thread->Free(c, producer.Allocate(c));  // at most one object is in use
        }
      }
    }
    size_t kept = 0;
    for (const auto& thread : threads) kept += thread->CachedBytes();
    return kept;
  };
  const size_t part = heap.registry.limits().total / kFreesPart;
  EXPECT_LE(pass_on({5000, 9000, 14'000, 20'000, 30'000, 40'000, 60'000}, kFreesOfEach), part);
  // The heap is not much larger than that.
  EXPECT_LE(heap.page_heap.GetStats().backed_bytes, 2 * part);
  // Each thread keeps some small objects of each size.
  const size_t kept = pass_on({64, 512, 2048}, 100);
  EXPECT_GE(kept, kThreads * (64 + 512 + 2048));
  EXPECT_LE(kept, 3 * part);
  heap.CheckInvariants();
}

TEST(ThreadCacheTest, LongObjectsReturnBeforeTheHeapGrows) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  thread.RaiseLimitTo(size_t{24} << 20);
  const SizeClass kept = ClassForSize(16'384);
  const SizeClass wanted = ClassForSize(24'576);
  std::vector<void*> objects(64);
  for (void*& object : objects) object = thread.Allocate(kept);
  for (void* object : objects) thread.Free(kept, object);
  const size_t cached = thread.CachedObjects(kept);
  ASSERT_GE(cached * kSizeClasses.size(kept), kReturnedFromBytes);
  const size_t backed = heap.page_heap.GetStats().backed_bytes;
  const size_t fit = cached * kSizeClasses.size(kept) / kSizeClasses.size(wanted);
  objects.resize(fit);
  for (void*& object : objects) {
    object = thread.Allocate(wanted);
    ASSERT_EQ(heap.page_heap.GetStats().backed_bytes, backed);
  }
  EXPECT_EQ(thread.CachedObjects(kept), 0u);
  for (void* object : objects) thread.Free(wanted, object);
}

TEST(ThreadCacheTest, WhatIsFreedPastTheBinIsNotKept) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  for (const size_t size : {size_t{8}, size_t{16384}}) {
    const SizeClass c = ClassForSize(size);
    std::vector<void*> objects;
    for (int i = 0; i < 10; ++i) objects.push_back(thread.Allocate(c));
    thread.Free(c, objects.back());
    objects.pop_back();
    const size_t cached = thread.CachedObjects(c);
    for (void* const object : objects) thread.cache()->FreePast(c, object);
    EXPECT_EQ(thread.CachedObjects(c), cached);
    EXPECT_FALSE(heap.central.IsOut(c, objects.front()));
  }
}

// While another thread has the cache, an object goes directly to the central cache. A second free
// of it is found when the bin is made.
TEST(ThreadCacheDeathTest, ASecondFreeOfWhatWentPastTheBin) {
  CacheTestHeap heap;
  TestThread owner(heap.registry);
  TestThread thread(heap.registry);
  for (const size_t size : {size_t{8}, size_t{48}, size_t{1024}, size_t{8192}}) {
    const SizeClass c = ClassForSize(size);
    void* const object = owner.Allocate(c);
    void* const in_use = owner.Allocate(c);  // so that the span stays in use
    thread.Take();
    thread.Free(c, object);
    thread.PutBack();
    EXPECT_MISUSE(thread.Free(c, object), DoubleFree(c, object));
    thread.Free(c, in_use);
    EXPECT_EQ(thread.CachedObjects(c), 1u);
  }
}

// A free may end with a collection. The object is still the newest in its bin, where a second free
// of it is found.
TEST(ThreadCacheDeathTest, AnImmediateSecondFreeAfterACollection) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  thread.RaiseLimitTo(size_t{1} << 20);
  const SizeClass c = ClassForSize(1024);
  const size_t max = bin_policy::MaxLimit(c);
  std::vector<void*> objects;
  for (size_t i = 0; i < 20 * max; ++i) objects.push_back(thread.Allocate(c));
  while (thread.CachedObjects(c) < max) {
    thread.Free(c, objects.back());
    objects.pop_back();
  }
  // Leaves this cache no budget, as if other caches had it all.
  thread.cache()->SetMaxBytes(0);
  thread.Free(c, objects.back());
  ASSERT_GT(thread.cache()->max_bytes(), 0u) << "no collection";
  EXPECT_MISUSE(thread.Free(c, objects.back()), DoubleFree(c, objects.back()));
}

// A second free that is not immediate is found when the second copy reaches the bitmap.
TEST(ThreadCacheDeathTest, ALaterSecondFreeIsFoundByTheFlush) {
  CacheTestHeap heap;
  TestThread thread(heap.registry);
  const SizeClass c = ClassForSize(48);
  void* const kept = thread.Allocate(c);
  void* const twice = thread.Allocate(c);
  void* const other = thread.Allocate(c);
  ASSERT_NE(kept, nullptr);
  thread.Free(c, twice);
  thread.Free(c, other);
  thread.Free(c, twice);
  EXPECT_MISUSE(thread.cache()->Flush(), DoubleFree(c, twice));
}

std::string NameOf(const testing::TestParamInfo<size_t>& parameter) {
  return std::to_string(parameter.param) + "Bytes";
}

// Tests threads on several CPUs: the n-th CPU that asks for a shard gets the n-th one.
class ThreadCacheShardsTest : public testing::TestWithParam<size_t> {
 protected:
  ~ThreadCacheShardsTest() override { test_processor = 0; }

  std::vector<void*> Allocate(TestThread& thread, size_t n) {
    std::vector<void*> objects;
    for (size_t i = 0; i < n; ++i) objects.push_back(thread.Allocate(class_));
    return objects;
  }

  // The pages that were touched, and the pages of those lines of objects [first, last) that
  // TakeLines stores to.
  static std::set<uintptr_t> PagesOf(const TouchWatch& watch) {
    std::set<uintptr_t> pages;
    for (const uintptr_t touch : watch.touches()) pages.insert(touch / TouchWatch::PageSize());
    return pages;
  }
  static std::set<uintptr_t> PagesOf(const std::vector<void*>& objects, size_t first, size_t last) {
    std::set<uintptr_t> pages;
    if (GetParam() > kMaxTakenBytes) return pages;
    for (size_t i = first; i < last; ++i) {
      const uintptr_t object = reinterpret_cast<uintptr_t>(objects[i]);
      for (const size_t byte : {size_t{0}, GetParam() - 1}) {
        pages.insert((object + byte) / TouchWatch::PageSize());
      }
    }
    return pages;
  }

  CacheTestHeap heap_;
  const SizeClass class_ = ClassForSize(GetParam());
  const size_t batch_ = bin_policy::Batch(class_);
};

// Objects that a thread frees but did not allocate return to their home shard, and TakeLines stores
// to their lines.
TEST_P(ThreadCacheShardsTest, AThreadThatOnlyFreesSendsObjectsHome) {
  TestThread producer(heap_.registry);
  TestThread consumer(heap_.registry);
  producer.RaiseLimitTo(size_t{1} << 20);
  consumer.RaiseLimitTo(size_t{1} << 20);
  const std::vector<void*> objects = Allocate(producer, 20 * batch_);
  test_processor = 1;
  {
    TouchWatch watch(TouchWatch::What::kStores);
    heap_.WatchSpansOf(&watch, objects);
    for (void* const object : objects) consumer.Free(class_, object);
    const size_t cached = consumer.CachedObjects(class_);
    ASSERT_LE(cached, batch_);
    EXPECT_EQ(PagesOf(watch), PagesOf(objects, 0, objects.size() - cached));
  }
  consumer.table().CheckInvariants();
  ASSERT_TRUE(heap_.Conserved(class_, 0));
  // The objects are in the shard in which the producer looks first.
  test_processor = 0;
  const size_t mapped = heap_.vm.mapped_bytes();
  for (const void* const object : Allocate(producer, 15 * batch_)) {
    EXPECT_EQ(heap_.ShardOf(object), 0u);
  }
  EXPECT_EQ(heap_.vm.mapped_bytes(), mapped);
}

// A thread with large bins frees its own objects, then objects of other threads. At the latest when
// it has returned as many of these as its bin may hold, all others return to their home shards.
TEST_P(ThreadCacheShardsTest, AThreadThatGoesOnWithOthersObjectsIsKnown) {
  TestThread thread(heap_.registry);
  TestThread producer(heap_.registry);
  thread.RaiseLimitTo(size_t{1} << 20);
  producer.RaiseLimitTo(size_t{1} << 20);
  const size_t max = bin_policy::MaxLimit(class_);
  std::vector<void*> own;
  while (thread.cache()->claimed_bytes() - thread.table().array_bytes() < max * GetParam()) {
    own.push_back(thread.Allocate(class_));
  }
  for (void* const object : own) thread.Free(class_, object);
  test_processor = 1;
  // The producer first gets objects that are left in the thread's shard.
  size_t held = 0;
  std::vector<void*> others;
  while (others.size() < 4 * max) {
    void* const object = producer.Allocate(class_);
    heap_.ShardOf(object) == 1 ? others.push_back(object) : void(++held);
  }
  test_processor = 0;
  const size_t cached_before = thread.CachedObjects(class_);
  TouchWatch watch(TouchWatch::What::kStores);
  heap_.WatchSpansOf(&watch, others);
  for (void* const object : others) thread.Free(class_, object);
  const std::set<uintptr_t> touched = PagesOf(watch);
  const std::set<uintptr_t> expected =
      PagesOf(others, cached_before + max, others.size() - thread.CachedObjects(class_));
  ASSERT_EQ(expected.empty(), GetParam() > kMaxTakenBytes);
  EXPECT_TRUE(std::includes(touched.begin(), touched.end(), expected.begin(), expected.end()));
  thread.table().CheckInvariants();
  ASSERT_TRUE(heap_.Conserved(class_, held));
}

// A thread that now runs on another CPU frees objects that it allocated: it touches none of their
// lines. This is true for bins of every size, also while they grow and get larger arrays.
TEST_P(ThreadCacheShardsTest, AThreadThatMovedTouchesNoneOfItsObjects) {
  TestThread thread(heap_.registry);
  thread.RaiseLimitTo(size_t{1} << 20);
  for (int round = 0; round < 3; ++round) {
    test_processor = 2 * round;
    const std::vector<void*> objects =
        Allocate(thread, 20 * bin_policy::MaxLimit(class_) / batch_ * batch_);
    test_processor = 2 * round + 1;
    TouchWatch watch(TouchWatch::What::kAnything);
    heap_.WatchSpansOf(&watch, objects);
    const size_t cached_before = thread.CachedObjects(class_);
    for (void* const object : objects) thread.Free(class_, object);
    const size_t returned = objects.size() + cached_before - thread.CachedObjects(class_);
    ASSERT_GT(returned, 4 * batch_);
    EXPECT_TRUE(watch.touches().empty());
    thread.table().CheckInvariants();
    ASSERT_TRUE(heap_.Conserved(class_, 0));
  }
}

INSTANTIATE_TEST_SUITE_P(Classes, ThreadCacheShardsTest,
                         testing::Values(8, 48, 64, 112, 512, 768, 1024, 2048, 2816, 8192, 16384),
                         NameOf);

}  // namespace
}  // namespace tcmalloc
