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

std::vector<void*> Remove(CentralCache& central, SizeClass c, size_t n) {
  std::vector<void*> objects(n);
  objects.resize(central.Remove(c, objects.data(), n));
  return objects;
}

// Exactly `n` objects, in as many calls as it takes.
std::vector<void*> RemoveAll(CentralCache& central, SizeClass c, size_t n) {
  std::vector<void*> objects;
  while (objects.size() < n) {
    const std::vector<void*> some = Remove(central, c, n - objects.size());
    if (some.empty()) break;
    objects.insert(objects.end(), some.begin(), some.end());
  }
  return objects;
}

TEST(CentralCacheTest, WholeBatchesGoThroughTheTransferCacheAndTheRestToTheList) {
  TestHeap heap;
  const SizeClass c = ClassForSize(512);
  const size_t batch = kSizeClasses.batch_size(c);
  TransferCache& transfer = (*heap.central.transfer_caches(0))[c];
  CentralFreeList& list = heap.central.free_list(c);
  const std::vector<void*> objects = RemoveAll(heap.central, c, 2 * batch + batch / 2);
  ASSERT_EQ(objects.size(), 2 * batch + batch / 2);
  ASSERT_EQ(transfer.objects(), 0u);
  // Keeps the last span from going back to the page heap.
  const std::vector<void*> kept = Remove(heap.central, c, 1);
  const size_t free_before = list.free_objects();

  heap.central.Insert(c, objects.data(), objects.size());
  EXPECT_EQ(transfer.objects(), 2 * batch);
  EXPECT_EQ(list.free_objects(), free_before + batch / 2);

  // Less than a batch comes from the list, a batch from the transfer cache: the one that came last.
  const std::vector<void*> few = Remove(heap.central, c, batch - 1);
  EXPECT_EQ(transfer.objects(), 2 * batch);
  const std::vector<void*> one = Remove(heap.central, c, batch);
  EXPECT_EQ(transfer.objects(), batch);
  EXPECT_EQ(one, std::vector<void*>(objects.begin() + static_cast<ptrdiff_t>(batch),
                                    objects.begin() + static_cast<ptrdiff_t>(2 * batch)));
  // More than it has: what it has is enough.
  const std::vector<void*> more = Remove(heap.central, c, 3 * batch);
  EXPECT_EQ(more,
            std::vector<void*>(objects.begin(), objects.begin() + static_cast<ptrdiff_t>(batch)));
  EXPECT_EQ(transfer.objects(), 0u);

  for (const auto& each : {kept, few, one, more}) heap.central.Insert(c, each.data(), each.size());
  heap.central.FlushTransferCaches();
  EXPECT_EQ(list.num_spans(), 0u);
  heap.CheckInvariants();
}

TEST(CentralCacheTest, WhatTheTransferCacheCannotTakeGoesToTheList) {
  TestHeap heap;
  const SizeClass c = ClassForSize(8192);
  const size_t batch = kSizeClasses.batch_size(c);
  const size_t room = (*heap.central.transfer_caches(0))[c].max_slots() * batch;
  ASSERT_GT(room, 0u);
  const std::vector<void*> objects = RemoveAll(heap.central, c, room + 3 * batch);
  ASSERT_EQ(objects.size(), room + 3 * batch);
  heap.central.Insert(c, objects.data(), objects.size());
  EXPECT_EQ((*heap.central.transfer_caches(0))[c].objects(), room);
  heap.central.free_list(c).CheckInvariants();
  EXPECT_EQ(heap.CentralObjects(c), heap.AllObjects(c));
  EXPECT_EQ(heap.central.FlushTransferCaches(), room * 8192);
  EXPECT_EQ(heap.central.free_list(c).num_spans(), 0u);
}

// 48-byte objects, four to a group of three lines.
class CentralCacheLinesTest : public testing::Test {
 protected:
  static constexpr size_t kLine = 4;

  // `n` objects that follow each other in memory, the first of a group first.
  std::vector<void*> Neighbours(size_t n) {
    std::vector<void*> objects = RemoveAll(heap_.central, class_, n);
    std::sort(objects.begin(), objects.end());
    EXPECT_EQ(objects.size(), n);
    EXPECT_EQ(static_cast<char*>(objects.back()) - static_cast<char*>(objects.front()),
              static_cast<ptrdiff_t>((n - 1) * 48));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(objects.front()) % 64, 0u);
    return objects;
  }

  TestHeap heap_;
  const SizeClass class_ = ClassForSize(48);
  const size_t batch_ = kSizeClasses.batch_size(class_);
  TransferCache& transfer_ = (*heap_.central.transfer_caches(0))[class_];
  CentralFreeList& list_ = heap_.central.free_list(class_);
};

TEST_F(CentralCacheLinesTest, ABatchOfWholeLinesPasses) {
  std::vector<void*> objects = Neighbours(batch_);
  heap_.central.Insert(class_, objects.data(), objects.size());
  EXPECT_EQ(transfer_.objects(), batch_);
  heap_.CheckInvariants();
  EXPECT_EQ(Remove(heap_.central, class_, batch_), objects);
  std::reverse(objects.begin(), objects.end());
  heap_.central.Insert(class_, objects.data(), objects.size());
  EXPECT_EQ(transfer_.objects(), batch_);
  EXPECT_EQ(Remove(heap_.central, class_, batch_), objects);
}

TEST_F(CentralCacheLinesTest, ABatchWithPartsOfLinesDoesNot) {
  std::vector<void*> objects = Neighbours(2 * batch_);
  // Every second one.
  std::vector<void*> half;
  for (size_t i = 0; i < objects.size(); i += 2) half.push_back(objects[i]);
  heap_.central.Insert(class_, half.data(), half.size());
  EXPECT_EQ(transfer_.objects(), 0u);
  // The other half comes back: the list has whole lines again, and hands them out.
  half.clear();
  for (size_t i = 1; i < objects.size(); i += 2) half.push_back(objects[i]);
  const void* const kept = half.back();
  half.pop_back();
  heap_.central.Insert(class_, half.data(), half.size());
  EXPECT_EQ(transfer_.objects(), 0u);
  const std::vector<void*> again = Remove(heap_.central, class_, batch_);
  EXPECT_EQ(again,
            std::vector<void*>(objects.begin(), objects.begin() + static_cast<ptrdiff_t>(batch_)));
  EXPECT_NE(kept, again.back());
  heap_.CheckInvariants();
}

// A thread whose frees are out of step with the lines: what is in front of the first whole line
// goes to the list, as does what is behind the last batch.
TEST_F(CentralCacheLinesTest, WhatIsInFrontOfTheFirstLineIsSkipped) {
  const std::vector<void*> objects = Neighbours(2 * batch_ + 2 * kLine);
  const size_t free_before = list_.free_objects();
  heap_.central.Insert(class_, &objects[1], 2 * batch_ + kLine);
  EXPECT_EQ(transfer_.objects(), 2 * batch_);
  EXPECT_EQ(list_.free_objects(), free_before + kLine);
  heap_.CheckInvariants();
  EXPECT_EQ(Remove(heap_.central, class_, batch_),
            std::vector<void*>(objects.begin() + static_cast<ptrdiff_t>(kLine + batch_),
                               objects.begin() + static_cast<ptrdiff_t>(kLine + 2 * batch_)));
}

// Behind a batch in disorder there may be one in order.
TEST_F(CentralCacheLinesTest, EachBatchIsLookedAt) {
  std::vector<void*> objects = Neighbours(3 * batch_ + kLine);
  SeededRandom random(42);
  // One object stays: the span stays.
  objects.pop_back();
  const std::vector<void*> in_order(objects.begin() + static_cast<ptrdiff_t>(batch_),
                                    objects.begin() + static_cast<ptrdiff_t>(2 * batch_));
  const size_t free_before = list_.free_objects();
  std::shuffle(objects.begin(), objects.begin() + static_cast<ptrdiff_t>(batch_), random.engine());
  std::shuffle(objects.begin() + static_cast<ptrdiff_t>(2 * batch_), objects.end(),
               random.engine());
  heap_.central.Insert(class_, objects.data(), objects.size());
  EXPECT_EQ(transfer_.objects(), batch_);
  EXPECT_EQ(list_.free_objects(), free_before + objects.size() - batch_);
  EXPECT_EQ(Remove(heap_.central, class_, batch_), in_order);
  heap_.CheckInvariants();
}

using CentralCacheLinesDeathTest = CentralCacheLinesTest;

TEST_F(CentralCacheLinesDeathTest, InvariantsAreChecked) {
  std::vector<void*> batch = Neighbours(batch_);
  const auto put_and_check = [&] {
    if (!transfer_.TryInsert(batch.data())) return;
    heap_.central.CheckInvariants();
  };
  put_and_check();
  ASSERT_TRUE(transfer_.TryRemove(batch.data()));
  // T2: an object that is free in its bitmap as well.
  EXPECT_DEATH(
      {
        list_.Insert(0, &batch[5], 1);
        put_and_check();
      },
      "IsOut");
  // T4: parts of lines.
  EXPECT_DEATH(
      {
        std::swap(batch[1], batch[2]);
        put_and_check();
      },
      "FindWholeLines");
}

// Two threads allocate and free in every order through the whole tier, in batches and less, and
// there is always a whole line group free: neither gets an object on a line on which the other one
// has an object.
// So it is where both are on one processor, and where they are not.
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

  // Even if each object that they hold divides a group, and the transfer caches are full, the
  // list has more. The first group of each span stays out, so that the spans stay.
  const size_t reserve =
      (12 * line + 2 * (*heap.central.transfer_caches(0))[c].max_slots()) * batch;
  std::vector<void*> kept;
  std::vector<void*> rest;
  for (const int processor : processors) {
    test_processor = processor;
    std::vector<void*> objects = RemoveAll(heap.central, c, reserve / 2);
    // Nothing is left for the other one to take.
    const std::vector<void*> more = RemoveAll(heap.central, c, list.free_objects());
    ASSERT_EQ(list.free_objects(), 0u);
    objects.insert(objects.end(), more.begin(), more.end());
    for (void* const object : objects) {
      const char* const start = static_cast<char*>(heap.SpanOf(object)->start_address());
      (static_cast<char*>(object) - start < static_cast<ptrdiff_t>(size * line) ? kept : rest)
          .push_back(object);
    }
  }
  list.Insert(0, rest.data(), rest.size());
  const size_t spans = list.num_spans();

  std::vector<void*> held[2];
  // Per cache line the thread that has objects there, and how many.
  std::map<uintptr_t, std::pair<size_t, size_t>> holder;
  const auto for_each_line = [&](const void* object, auto f) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(object);
    for (uintptr_t at = first / 64; at <= (first + size - 1) / 64; ++at) f(holder[at]);
  };
  for (void* const object : kept) {
    for_each_line(object, [](auto& entry) { entry = {2, entry.second + 1}; });
  }
  size_t from_transfer_cache = 0;
  for (int step = 0; step < 1000; ++step) {
    const size_t thread = random.Below(2);
    test_processor = processors[thread];
    std::vector<void*>& mine = held[thread];
    if (random.OneIn(2)) {
      size_t n = random.OneIn(2) ? batch : line * random.Between(1, batch / line);
      if (mine.size() + n > max_held) continue;
      const size_t before = heap.central.transfer_objects(c);
      const std::vector<void*> objects = Remove(heap.central, c, n);
      if (heap.central.transfer_objects(c) < before) ++from_transfer_cache;
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
  EXPECT_GT(from_transfer_cache, 10u);
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

// Several processors: the n-th that asks has the n-th shard.
class CentralCacheShardsTest : public testing::Test {
 protected:
  ~CentralCacheShardsTest() override { test_processor = 0; }

  // All objects of `spans` new spans of the shard of a processor.
  std::vector<void*> NewSpans(int processor, size_t spans) {
    test_processor = processor;
    const std::vector<void*> objects =
        RemoveAll(heap_.central, class_, spans * list_.objects_per_span());
    EXPECT_EQ(list_.free_objects(), 0u);
    EXPECT_EQ(heap_.central.transfer_objects(class_), 0u);
    return objects;
  }
  size_t ShardOf(const void* object) { return heap_.SpanOf(object)->shard; }
  size_t TransferObjects(size_t shard) { return heap_.TransferObjects(shard, class_); }
  static size_t PagesOf(size_t bytes) { return bytes / TouchWatch::PageSize(); }

  TestHeap heap_;
  const SizeClass class_ = ClassForSize(512);
  const size_t batch_ = kSizeClasses.batch_size(class_);
  CentralFreeList& list_ = heap_.central.free_list(class_);
};

TEST_F(CentralCacheShardsTest, OwnTransferCacheOwnSpansOthersTransferCachesOthersSpans) {
  const std::vector<void*> mine = NewSpans(40, 4);
  const std::vector<void*> others = NewSpans(30, 4);
  ASSERT_GT(mine.size(), 2 * batch_);
  ASSERT_EQ(ShardOf(mine[0]), 0u);
  ASSERT_EQ(ShardOf(others[0]), 1u);
  const size_t spans = list_.num_spans();
  const auto part = [&](const std::vector<void*>& objects, size_t batch) {
    return std::vector<void*>(objects.begin() + static_cast<ptrdiff_t>(batch * batch_),
                              objects.begin() + static_cast<ptrdiff_t>((batch + 1) * batch_));
  };
  // All but one: its span stays where it is.
  const auto most_of = [&](const std::vector<void*>& objects, size_t batch) {
    std::vector<void*> most = part(objects, batch);
    most.pop_back();
    return most;
  };
  // A batch in each transfer cache, whosever objects they are, one in the own shard's spans, and in
  // the other one's a little more than it keeps for itself.
  test_processor = 40;
  heap_.central.Insert(class_, part(others, 0).data(), batch_);
  test_processor = 30;
  heap_.central.Insert(class_, part(mine, 0).data(), batch_);
  EXPECT_EQ(TransferObjects(0), batch_);
  EXPECT_EQ(TransferObjects(1), batch_);
  EXPECT_EQ(heap_.central.transfer_objects(class_), 2 * batch_);
  list_.Insert(0, part(mine, 1).data(), batch_);
  list_.Insert(0, most_of(others, 1).data(), batch_ - 1);
  list_.Insert(0, most_of(others, 2).data(), batch_ - 1);
  heap_.CheckInvariants();

  test_processor = 40;
  EXPECT_EQ(Remove(heap_.central, class_, batch_), part(others, 0));
  EXPECT_EQ(Remove(heap_.central, class_, batch_), part(mine, 1));
  EXPECT_EQ(Remove(heap_.central, class_, batch_), part(mine, 0));
  // Of two equals the one that came last.
  std::vector<void*> from_others = most_of(others, 2);
  from_others.push_back(others[batch_]);
  EXPECT_EQ(Remove(heap_.central, class_, batch_), from_others);
  EXPECT_EQ(list_.num_spans(), spans);
  EXPECT_EQ(ShardOf(Remove(heap_.central, class_, batch_).at(0)), 0u);
  EXPECT_EQ(list_.num_spans(), spans + 1);
  heap_.CheckInvariants();
}

// What other threads allocated near another processor does not go into the own transfer cache, but
// home to its spans, and its lines are taken. So much is said of the caller by `origin` alone, and
// of the objects by their spans.
TEST_F(CentralCacheShardsTest, OthersFarObjectsGoHome) {
  const std::vector<void*> far = NewSpans(40, 4);
  const std::vector<void*> near = NewSpans(30, 4);
  ASSERT_GE(far.size(), 4 * batch_);
  for (size_t i = 0; i < far.size(); ++i) memset(far[i], static_cast<int>(i), 512);
  // An object of each span stays out: the spans stay.
  const auto part = [&](const std::vector<void*>& objects, size_t span) {
    const size_t first = span * list_.objects_per_span();
    return std::vector<void*>(objects.begin() + static_cast<ptrdiff_t>(first),
                              objects.begin() + static_cast<ptrdiff_t>(first + batch_ - 1));
  };
  std::vector<void*> home = part(far, 0);
  const std::vector<void*> second = part(far, 1);
  home.insert(home.end(), second.begin(), second.end());
  ASSERT_GE(home.size(), batch_);
  test_processor = 30;
  {
    TouchWatch watch(TouchWatch::What::kStores);
    heap_.WatchSpansOf(&watch, home);
    heap_.central.Insert(class_, home.data(), home.size(), Origin::kOtherThreads);
    EXPECT_EQ(watch.touches().size(), PagesOf(2 * list_.span_bytes()));
  }
  EXPECT_EQ(heap_.central.transfer_objects(class_), 0u);
  EXPECT_EQ(list_.free_objects(), home.size());
  heap_.CheckInvariants();
  // Less than a batch goes to the list in any case, and its lines are taken too.
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
  // Those who live there get them.
  test_processor = 40;
  std::vector<void*> again = RemoveAll(heap_.central, class_, home.size());
  again.erase(std::remove(again.begin(), again.end(), far.back()), again.end());
  for (const void* const object : again) {
    EXPECT_EQ(std::count(home.begin(), home.end(), object), 1);
  }

  // Whoever may have allocated them: into the transfer cache. So go near ones, of any thread. None
  // of them is touched.
  TouchWatch watch(TouchWatch::What::kAnything);
  heap_.WatchSpansOf(&watch, far);
  heap_.WatchSpansOf(&watch, near);
  test_processor = 30;
  heap_.central.Insert(class_, &far[2 * list_.objects_per_span()], batch_);
  EXPECT_EQ(TransferObjects(1), batch_);
  heap_.central.Insert(class_, near.data(), batch_, Origin::kOtherThreads);
  EXPECT_EQ(TransferObjects(1), 2 * batch_);
  // Less than a batch: to the list, as it is.
  const size_t free_before = list_.free_objects();
  heap_.central.Insert(class_, &near[batch_], 1, Origin::kOtherThreads);
  heap_.central.Insert(class_, &far[3 * list_.objects_per_span()], 1, Origin::kAny);
  EXPECT_EQ(list_.free_objects(), free_before + 2);
  EXPECT_EQ(TransferObjects(0), 0u);
  EXPECT_TRUE(watch.touches().empty());
}

using CentralCacheShardsDeathTest = CentralCacheShardsTest;

// What goes home is looked at as everything is. What is freed twice is not touched where its pages
// are no longer the class's: they may have no memory.
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

  // The second span goes, and its memory with it.
  heap_.central.Insert(class_, &objects[per_span], per_span, Origin::kOtherThreads);
  ASSERT_EQ(list_.num_spans(), 1u);
  ASSERT_EQ(mprotect(objects[per_span], list_.span_bytes(), PROT_NONE), 0);
  const std::string gone = "no object is in use there (freed before, or never the start of one)";
  expect_death({objects[per_span]}, objects[per_span], gone);
  expect_death({objects[6], objects[per_span]}, objects[per_span], gone);
  ASSERT_EQ(mprotect(objects[per_span], list_.span_bytes(), PROT_READ | PROT_WRITE), 0);
}

// What the processor emptied a moment ago comes before what lies in others' transfer caches.
TEST_F(CentralCacheShardsTest, OwnPagesBeforeOthersTransferCaches) {
  const std::vector<void*> mine = NewSpans(7, 2);
  const std::vector<void*> others = NewSpans(8, 2);
  heap_.central.Insert(class_, others.data(), batch_);
  ASSERT_EQ(TransferObjects(1), batch_);
  test_processor = 7;
  const size_t first_span = list_.objects_per_span();
  list_.Insert(0, mine.data(), first_span);
  ASSERT_EQ(list_.num_spans(), 3u);
  ASSERT_EQ(list_.free_objects(), 0u);
  const std::vector<void*> again = Remove(heap_.central, class_, batch_);
  EXPECT_EQ(again.at(0), mine[0]);
  EXPECT_EQ(TransferObjects(1), batch_);
}

TEST_F(CentralCacheShardsTest, FlushEmptiesTheTransferCachesOfAllShards) {
  constexpr int kProcessors = static_cast<int>(kMaxShards) + 2;
  std::map<int, std::vector<void*>> objects;
  for (int p = 0; p < kProcessors; ++p) objects[p] = NewSpans(p, 2);
  size_t expected = 0;
  for (int p = 0; p < kProcessors; ++p) {
    test_processor = p;
    // Objects of another one's spans, but not all of a span, so that it stays.
    std::vector<void*>& other = objects[(p + 5) % kProcessors];
    ASSERT_LE(batch_, list_.objects_per_span());
    heap_.central.Insert(class_, &other[1], batch_);
    other.erase(other.begin() + 1, other.begin() + 1 + static_cast<ptrdiff_t>(batch_));
    expected += batch_;
  }
  for (size_t shard = 0; shard < kMaxShards; ++shard) {
    EXPECT_EQ(TransferObjects(shard), shard < 2 ? 2 * batch_ : batch_) << shard;
  }
  heap_.CheckInvariants();
  EXPECT_EQ(heap_.CentralObjects(class_), expected);
  EXPECT_EQ(heap_.central.FlushTransferCaches(), expected * 512);
  EXPECT_EQ(heap_.central.transfer_objects(class_), 0u);
  EXPECT_EQ(list_.free_objects(), expected);
  heap_.CheckInvariants();
  for (const auto& [p, rest] : objects) list_.Insert(0, rest.data(), rest.size());
  EXPECT_EQ(list_.num_spans(), 0u);
  EXPECT_EQ(heap_.page_heap.GetStats().small_span_bytes, 0u);
  heap_.CheckInvariants();
}

TEST_F(CentralCacheShardsTest, WithoutMemoryForTransferCachesThoseOfTheFirstShardServe) {
  const std::vector<void*> first = NewSpans(1, 2);
  const std::vector<void*> second = NewSpans(2, 2);
  // Those of the first shard have their array.
  heap_.central.Insert(class_, first.data(), batch_);
  ASSERT_EQ(Remove(heap_.central, class_, batch_).size(), batch_);
  test_processor = 1;
  heap_.central.Insert(class_, first.data(), batch_);
  ASSERT_EQ(Remove(heap_.central, class_, batch_).size(), batch_);
  test_processor = 3;
  heap_.vm.FailMap(1, FakeVirtualMemory::kForever);
  while (heap_.arena.AllocateWithoutGrowing(sizeof(TransferCaches)) != nullptr) {
  }
  heap_.central.Insert(class_, second.data(), batch_);
  EXPECT_GT(heap_.vm.map_failures(), 0u);
  EXPECT_EQ(heap_.central.transfer_caches(2), nullptr);
  EXPECT_EQ(TransferObjects(0), batch_);
  heap_.CheckInvariants();
  EXPECT_EQ(Remove(heap_.central, class_, batch_),
            std::vector<void*>(second.begin(), second.begin() + static_cast<ptrdiff_t>(batch_)));
  heap_.vm.StopFailing();
  heap_.central.Insert(class_, second.data(), batch_);
  EXPECT_NE(heap_.central.transfer_caches(2), nullptr);
  EXPECT_EQ(TransferObjects(0), 0u);
  EXPECT_EQ(TransferObjects(2), batch_);
  heap_.CheckInvariants();
}

// See the test of this name of CentralFreeList.
TEST_F(CentralCacheShardsTest, AShardMadeBetweenForkHandlersIsHeldToo) {
  const std::vector<void*> objects = NewSpans(0, 2);
  heap_.central.ForEachLock([](SpinLock& lock) { lock.HoldForFork(); });
  SpinLock::BeginForkHold();
  test_processor = 1;
  heap_.central.Insert(class_, objects.data(), batch_);
  EXPECT_EQ(TransferObjects(1), batch_);
  heap_.central.ForEachLock([](SpinLock& lock) { EXPECT_TRUE(lock.HeldForForkByThisThread()); });
  SpinLock::EndForkHold();
  heap_.central.ForEachLock([](SpinLock& lock) { lock.ReleaseAfterForkInParent(); });
  std::thread([&] {
    test_processor = 1;
    EXPECT_EQ(Remove(heap_.central, class_, batch_).size(), batch_);
  }).join();
  heap_.CheckInvariants();
}

// Before fork all locks of all shards are held, each once.
TEST_F(CentralCacheShardsTest, ForEachLockCoversAllShards) {
  const auto locks_now = [&] {
    std::vector<SpinLock*> locks;
    heap_.central.ForEachLock([&](SpinLock& lock) { locks.push_back(&lock); });
    EXPECT_EQ(std::set<SpinLock*>(locks.begin(), locks.end()).size(), locks.size());
    return locks;
  };
  constexpr size_t kClasses = kNumSizeClasses - 1;
  // Its own, those of the first shard's transfer caches, and each class's own.
  EXPECT_EQ(locks_now().size(), 1 + kClasses + kClasses);
  std::vector<std::vector<void*>> objects;
  for (int p = 0; p < static_cast<int>(kMaxShards); ++p) {
    objects.push_back(NewSpans(p, 2));
    heap_.central.Insert(class_, objects.back().data(), batch_);
    Remove(heap_.central, class_, batch_);
    const size_t shards = static_cast<size_t>(p) + 1;
    EXPECT_EQ(locks_now().size(), 1 + shards * kClasses + kClasses + shards);
  }
  // Held is held: no transfer cache takes anything meanwhile.
  for (int p = 0; p < static_cast<int>(kMaxShards); ++p) {
    heap_.central.ForEachLock([](SpinLock& lock) { lock.HoldForFork(); });
    std::atomic<bool> done{false};
    std::thread other([&, p] {
      test_processor = p;
      heap_.central.Insert(class_, objects[static_cast<size_t>(p)].data(), batch_);
      done = true;
    });
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    EXPECT_FALSE(done) << p;
    EXPECT_EQ(TransferObjects(static_cast<size_t>(p)), 0u);
    heap_.central.ForEachLock([](SpinLock& lock) { lock.ReleaseAfterForkInParent(); });
    other.join();
    EXPECT_EQ(TransferObjects(static_cast<size_t>(p)), batch_);
  }
  heap_.CheckInvariants();
}

// Without memory for the transfer cache's array everything goes to the list.
TEST(CentralCacheTest, WithoutMemoryForTheArray) {
  TestHeap heap;
  const SizeClass c = ClassForSize(8);
  const std::vector<void*> objects = RemoveAll(heap.central, c, 4 * kMaxBatchSize);
  std::vector<void*> arena_memory;
  while (void* const memory = heap.arena.AllocateWithoutGrowing(16)) arena_memory.push_back(memory);
  heap.vm.FailMap(1, FakeVirtualMemory::kForever);
  heap.central.Insert(c, objects.data(), objects.size());
  EXPECT_GT(heap.vm.map_failures(), 0u);
  EXPECT_EQ((*heap.central.transfer_caches(0))[c].objects(), 0u);
  EXPECT_EQ(heap.central.free_list(c).num_spans(), 0u);
  heap.CheckInvariants();
}

TEST(CentralCacheTest, FlushReturnsTheBytesAndLeavesNothing) {
  TestHeap heap;
  EXPECT_EQ(heap.central.FlushTransferCaches(), 0u);
  size_t expected = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const size_t n = (1 + i % 3) * kSizeClasses.batch_size(c);
    const std::vector<void*> objects = RemoveAll(heap.central, c, n);
    ASSERT_EQ(objects.size(), n);
    heap.central.Insert(c, objects.data(), n);
    expected += (*heap.central.transfer_caches(0))[c].objects() * kSizeClasses.size(c);
  }
  ASSERT_GT(expected, 0u);
  EXPECT_EQ(heap.central.FlushTransferCaches(), expected);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    EXPECT_EQ((*heap.central.transfer_caches(0))[static_cast<SizeClass>(i)].objects(), 0u);
    EXPECT_EQ(heap.central.free_list(static_cast<SizeClass>(i)).num_spans(), 0u);
  }
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
  EXPECT_EQ(heap.central.FlushTransferCaches(), 0u);
  heap.CheckInvariants();
}

// Threads remove, write their name into what they got, hand some to each other and return the rest,
// while others flush.
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
      // Several on one processor, and each on others now and then.
      const int home = static_cast<int>(t % 3);
      std::vector<Held> held;
      for (int step = 0; step < kSteps; ++step) {
        test_processor = random.OneIn(8) ? static_cast<int>(random.Below(2 * kMaxShards)) : home;
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
            if (random.OneIn(8)) heap.central.FlushTransferCaches();
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
  heap.central.FlushTransferCaches();
  for (const SizeClass c : classes) EXPECT_EQ(heap.central.free_list(c).num_spans(), 0u);
  heap.CheckInvariants();
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
}

}  // namespace
}  // namespace tcmalloc
