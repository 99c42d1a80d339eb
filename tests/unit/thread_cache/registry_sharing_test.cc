// SPDX-License-Identifier: BSD-3-Clause
// One thread uses the caches of others: flushes, steals, takes idle ones.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/address_range.h"
#include "testing/random.h"
#include "thread_cache/bin_policy.h"
#include "thread_cache/cache_budget.h"
#include "thread_cache/cache_fixture.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kSharingSeed = 1140;

class RegistrySharingTest : public testing::Test {
 protected:
  // Leaves objects of many classes in the thread's cache.
  static void Fill(TestThread& thread) {
    for (const size_t size : {8, 16, 48, 64, 256, 1024}) {
      thread.Use(ClassForSize(size), 20);
    }
    ASSERT_GT(thread.CachedBytes(), 0u);
  }
  // Leaves as many objects of class `c` in the thread's cache, in a bin that nothing else uses.
  static void LeaveStale(TestThread& thread, SizeClass c, int count) {
    thread.Use(c, count);
    ASSERT_GT(thread.CachedObjects(c), 16u);
  }
  // Makes the registry believe that it last checked the cache long ago.
  static void PretendIdle(TestThread& thread) {
    thread.cache()->record.activity_stamp = thread.cache()->ActivityStamp();
    thread.cache()->record.stamped_at_ms -= 1000 * kIdleCacheMs;
  }

  CacheTestHeap heap_;
};

// Returns the objects in the chains of arrays that marks on the calling thread's stack point to, up
// to `end`.
std::set<uintptr_t> MarkedObjects(uintptr_t end) {
  std::set<uintptr_t> objects;
  const uintptr_t start = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  for (uintptr_t at = start; at < end; at += sizeof(uintptr_t)) {
    if (LoadRaw<uintptr_t>(at) != InFlightMark::TagAt(at)) continue;
    const auto& in_flight = *reinterpret_cast<const BinArraysInFlight*>(at);
    if (!in_flight.mark.Is(InFlightMark::Kind::kBinArrays)) continue;
    for (const BinArray* array = in_flight.first(); array != nullptr;
         array = reinterpret_cast<const BinArray*>(array->slots()[0])) {
      objects.insert(array->slots() + 1, array->slots() + 1 + array->count);
    }
  }
  return objects;
}

// While a thread empties a cache, each object is in a bitmap, or in an array that a mark points to.
TEST_F(RegistrySharingTest, ObjectsInFlightFromACacheCanBeFound) {
  heap_.page_heap.governor()->SetReleasing(Releasing::kEager);
  enum class By { kOwner, kAnother, kEnd };
  for (const By by : {By::kOwner, By::kAnother, By::kEnd}) {
    TestThread thread(heap_.registry);
    Fill(thread);
    std::set<uintptr_t> cached;
    heap_.registry.ForEachCache([&](const ThreadCache& cache, Registry::Holder holder) {
      EXPECT_EQ(holder, Registry::Holder::kThread);
      cache.table().ForEachSlot([&](SizeClass, BinSlot object, ptrdiff_t above_top) {
        if (above_top <= 0) cached.insert(object);
      });
    });
    EXPECT_GE(cached.size(), 100u);
    const uintptr_t end = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    size_t on_their_way = 0;
    heap_.vm.OnNextRelease([&] {
      std::set<uintptr_t> marked = MarkedObjects(end);
      size_t listed = 0;
      heap_.registry.ForEachCache([&](const ThreadCache& cache, Registry::Holder) {
        cache.table().ForEachSlot([&](SizeClass, BinSlot, ptrdiff_t) { ++listed; });
      });
      EXPECT_EQ(listed, 0u);
      for (const uintptr_t object : cached) {
        const void* const p = reinterpret_cast<const void*>(object);
        const SizeClass c = heap_.page_map.ClassOf(p);
        if (c == SizeClass::kNone || !heap_.central.IsOut(c, p)) continue;
        EXPECT_TRUE(marked.contains(object)) << p;
        ++on_their_way;
      }
    });
    if (by == By::kOwner) thread.cache()->Flush();
    if (by == By::kAnother) heap_.registry.FlushAll(nullptr);
    if (by == By::kEnd) thread.Exit();
    EXPECT_GT(on_their_way, 0u);
    EXPECT_TRUE(MarkedObjects(end).empty());
    if (by != By::kEnd) thread.Exit();
  }
}

TEST_F(RegistrySharingTest, FlushAllEmptiesEveryCache) {
  std::vector<std::unique_ptr<TestThread>> threads;
  size_t cached = 0;
  // There are more caches than are detached at once. No cache may be detached twice.
  for (size_t i = 0; i < 3 * kDetachedAtOnce + 1; ++i) {
    threads.push_back(std::make_unique<TestThread>(heap_.registry));
    if (i % 5 != 0) Fill(*threads.back());
    cached += threads.back()->CachedBytes();
  }
  EXPECT_EQ(heap_.registry.FlushAll(threads[7]->cache()), cached);
  const RegistryTotals totals = TotalsOf(heap_.registry);
  EXPECT_EQ(totals.cached_bytes, 0u);
  EXPECT_EQ(totals.array_bytes, 0u);
  EXPECT_EQ(totals.caches, threads.size());
  heap_.registry.CheckInvariants();
  EXPECT_EQ(heap_.registry.FlushAll(nullptr), 0u);
  // The threads use their caches as before.
  for (auto& thread : threads) Fill(*thread);
  EXPECT_GT(heap_.registry.FlushAll(nullptr), 0u);
  for (auto& thread : threads) thread->Exit();
  EXPECT_EQ(heap_.page_heap.GetStats().small_span_bytes, 0u);
  heap_.CheckInvariants();
}

TEST_F(RegistrySharingTest, FlushIdleLeavesOthersAlone) {
  TestThread idle(heap_.registry);
  EXPECT_LE(heap_.registry.all().of_threads.value(), 1u);
  TestThread busy(heap_.registry);
  EXPECT_GT(heap_.registry.all().of_threads.value(), 1u);
  Fill(idle);
  Fill(busy);
  const size_t cached = idle.CachedBytes();
  const Registry::IdleFlush first = heap_.registry.FlushIdle();
  EXPECT_EQ(first.bytes, 0u) << "not known yet";
  EXPECT_TRUE(first.in_use);
  PretendIdle(idle);
  PretendIdle(busy);
  busy.Allocate(ClassForSize(8));
  const Registry::IdleFlush second = heap_.registry.FlushIdle();
  EXPECT_EQ(second.bytes, cached);
  EXPECT_TRUE(second.in_use) << "the busy one";
  EXPECT_EQ(idle.CachedBytes(), 0u);
  EXPECT_GT(busy.CachedBytes(), 0u);
  PretendIdle(busy);
  EXPECT_FALSE(heap_.registry.FlushIdle().in_use);
  EXPECT_EQ(busy.CachedBytes(), 0u);
  heap_.registry.CheckInvariants();
  busy.Exit();
  EXPECT_LE(heap_.registry.all().of_threads.value(), 1u);
}

TEST_F(RegistrySharingTest, EachAllocationChangesTheStamp) {
  TestThread thread(heap_.registry);
  SeededRandom random(kSharingSeed);
  std::set<uint64_t> stamps{thread.cache()->ActivityStamp()};
  size_t steps = 0;
  for (; steps < 2000; ++steps) {
    const SizeClass c = ClassForSize(random.Between(1, 64));
    if (random.OneIn(2)) {
      thread.Allocate(c);
    } else {
      // Does what the entry points do for an allocation that they count on their slow path.
      thread.cache()->CountAllocation(kSizeClasses.size(c));
      thread.cache()->Allocate(c);
    }
    stamps.insert(thread.cache()->ActivityStamp());
  }
  EXPECT_EQ(stamps.size(), steps + 1);
}

TEST_F(RegistrySharingTest, ABusyThreadGetsARequest) {
  TestThread busy(heap_.registry);
  TestThread idle(heap_.registry);
  Fill(busy);
  Fill(idle);
  const size_t cached = busy.CachedBytes();
  const size_t others = idle.CachedBytes();
  busy.slot().BeginAccess();
  EXPECT_EQ(heap_.registry.FlushAll(nullptr), others);
  EXPECT_EQ(busy.CachedBytes(), cached);
  EXPECT_EQ(busy.slot().bins.load(), &busy.table().bins()) << "put back";
  busy.slot().EndAccess();
  const SizeClass c = ClassForSize(32768);
  void* const object = busy.cache()->Allocate(c);
  EXPECT_EQ(busy.CachedBytes(), 0u);
  // One request is enough.
  Fill(busy);
  const size_t again = busy.CachedBytes();
  busy.cache()->Free(c, object);
  EXPECT_GE(busy.CachedBytes(), again);
}

TEST_F(RegistrySharingTest, WithoutABarrierAllGetARequest) {
  TestHeap tiers;
  Registry registry(tiers.central, tiers.arena, [] { return false; });
  TestThread own(registry);
  TestThread other(registry);
  Fill(own);
  Fill(other);
  const size_t cached = other.CachedBytes();
  const size_t mine = own.CachedBytes();
  EXPECT_EQ(registry.FlushAll(own.cache()), mine);
  EXPECT_EQ(other.CachedBytes(), cached);
  EXPECT_EQ(other.slot().bins.load(), &other.table().bins());
  const SizeClass c = ClassForSize(32768);
  other.cache()->Free(c, other.cache()->Allocate(c));
  EXPECT_LE(other.CachedBytes(), 32768u);
  registry.CheckInvariants();
}

// One thread has three of four steps of the budget and a filled cache; another one is short.
class RegistrySharingShortTest : public RegistrySharingTest {
 protected:
  RegistrySharingShortTest() {
    heap_.registry.SetTotalLimit(4 * kCacheStepBytes);
    owner_.RaiseLimitTo(3 * kCacheStepBytes);
    Fill(owner_);
    cached_ = owner_.CachedBytes();
  }
  ~RegistrySharingShortTest() override { heap_.registry.CheckInvariants(); }

  TestThread owner_{heap_.registry};
  TestThread busy_{heap_.registry};
  size_t cached_;
};

TEST_F(RegistrySharingShortTest, AnIdleCacheIsEmptied) {
  // The first check records the state of the idle cache, and only lowers its limit.
  heap_.registry.RaiseLimit(busy_.cache());
  EXPECT_EQ(owner_.cache()->max_bytes(), 2 * kCacheStepBytes);
  EXPECT_EQ(owner_.CachedBytes(), cached_);
  PretendIdle(owner_);
  heap_.registry.RaiseLimit(busy_.cache());
  EXPECT_EQ(owner_.CachedBytes(), 0u);
  EXPECT_EQ(owner_.table().array_bytes(), 0u);
  EXPECT_EQ(owner_.cache()->max_bytes(), 0u);
  EXPECT_EQ(busy_.cache()->max_bytes(), 3 * kCacheStepBytes);
  // When the thread wakes, its cache starts again like a new one.
  Fill(owner_);
  EXPECT_GE(owner_.cache()->max_bytes(), kInitialCacheBytes);
}

// A bin that is used as a stack has the same height at every check.
TEST_F(RegistrySharingShortTest, AThreadWhoseBinsLookTheSameIsNotIdle) {
  heap_.registry.RaiseLimit(busy_.cache());
  ASSERT_EQ(owner_.cache()->max_bytes(), 2 * kCacheStepBytes);
  PretendIdle(owner_);
  const SizeClass c = ClassForSize(64);
  const BinSlot* const top = owner_.table().bins().tops[Index(c)].load();
  owner_.Free(c, owner_.Allocate(c));
  ASSERT_EQ(owner_.table().bins().tops[Index(c)].load(), top);
  heap_.registry.RaiseLimit(busy_.cache());
  EXPECT_EQ(owner_.CachedBytes(), cached_);
  EXPECT_EQ(owner_.cache()->max_bytes(), kCacheStepBytes) << "as from any other";
  EXPECT_EQ(busy_.cache()->max_bytes(), 3 * kCacheStepBytes);
}

// A thread that only frees is recognised by its overflows.
TEST_F(RegistrySharingShortTest, AThreadWhoseBinsOverflowIsNotIdle) {
  const SizeClass c = ClassForSize(64);
  const std::vector<void*> objects = heap_.Take(c, 1000);
  PretendIdle(owner_);
  for (void* const object : objects) owner_.Free(c, object);
  for (int raise = 0; raise < 4; ++raise) heap_.registry.RaiseLimit(busy_.cache());
  EXPECT_GT(owner_.CachedBytes(), 0u);
}

// A cache that looked idle, but whose owner is in the middle of an operation, keeps its objects,
// and its limit is lowered no more than that of any other cache.
TEST_F(RegistrySharingShortTest, OnlyACacheThatWasEmptiedLosesItsLimit) {
  PretendIdle(owner_);
  owner_.slot().BeginAccess();
  heap_.registry.RaiseLimit(busy_.cache());
  EXPECT_EQ(owner_.CachedBytes(), cached_);
  EXPECT_EQ(owner_.cache()->max_bytes(), 2 * kCacheStepBytes);
  EXPECT_EQ(busy_.cache()->max_bytes(), 2 * kCacheStepBytes);
  owner_.slot().EndAccess();
}

// Fork handlers of other libraries may call any function. While the lock is held for fork, no cache
// is detached except the caller's own.
TEST_F(RegistrySharingShortTest, NothingIsTakenAroundFork) {
  Fill(busy_);
  const size_t mine = busy_.CachedBytes();
  PretendIdle(owner_);
  heap_.registry.lock().HoldForFork();
  SpinLock::BeginForkHold();
  EXPECT_EQ(heap_.registry.FlushAll(busy_.cache()), mine);
  heap_.registry.RaiseLimit(busy_.cache());
  EXPECT_EQ(heap_.registry.FlushAll(nullptr), 0u);
  EXPECT_EQ(owner_.CachedBytes(), cached_);
  EXPECT_GT(owner_.cache()->max_bytes(), 0u);
  SpinLock::EndForkHold();
  heap_.registry.lock().ReleaseAfterForkInParent();
  EXPECT_EQ(heap_.registry.FlushAll(nullptr), cached_);
}

TEST_F(RegistrySharingTest, OneBarrierAtMostForOneRaise) {
  static int barriers;
  TestHeap tiers;
  Registry registry(tiers.central, tiers.arena, [] {
    ++barriers;
    return CacheTestHeap::IssueBarrier();
  });
  // The limit of one idle cache does not suffice.
  registry.SetTotalLimit(0);
  TestThread busy(registry);
  std::vector<std::unique_ptr<TestThread>> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(std::make_unique<TestThread>(registry));
    Fill(*idle.back());
  }
  for (auto& thread : idle) PretendIdle(*thread);
  for (int raise = 1; raise <= 6; ++raise) {
    barriers = 0;
    registry.RaiseLimit(busy.cache());
    EXPECT_EQ(barriers, raise <= 4 ? 1 : 0) << "raise " << raise;
    int emptied = 0;
    for (auto& thread : idle) {
      const bool empty = thread->cache()->claimed_bytes() == 0;
      emptied += empty;
      EXPECT_EQ(thread->cache()->max_bytes(), empty ? 0 : kInitialCacheBytes);
    }
    EXPECT_EQ(emptied, std::min(raise, 4));
  }
  registry.CheckInvariants();
}

// A flush visits the caches that existed when it began, so that it ends although new threads start
// all the time.
TEST_F(RegistrySharingTest, AFlushSkipsThreadsThatStartMeanwhile) {
  TestThread one(heap_.registry);
  TestThread two(heap_.registry);
  std::unique_ptr<TestThread> newcomer;
  Fill(one);
  Fill(two);
  const SizeClass large = ClassForSize(kMaxSmallSize);
  one.RaiseLimitTo(size_t{1} << 20);
  one.Free(large, one.Allocate(large));
  const size_t cached = one.CachedBytes() + two.CachedBytes();
  size_t newcomers = 0;
  // Free pages are released at once. So the hook runs between two acquisitions of the registry's
  // lock.
  heap_.page_heap.governor()->SetReleasing(Releasing::kEager);
  heap_.vm.OnNextRelease([&] {
    newcomer = std::make_unique<TestThread>(heap_.registry);
    Fill(*newcomer);
    newcomers = newcomer->CachedBytes();
  });
  EXPECT_EQ(heap_.registry.FlushAll(nullptr), cached);
  ASSERT_NE(newcomer, nullptr);
  EXPECT_EQ(one.CachedBytes() + two.CachedBytes(), 0u);
  EXPECT_EQ(newcomer->CachedBytes(), newcomers);
  EXPECT_EQ(heap_.registry.FlushAll(nullptr), newcomers);
}

TEST_F(RegistrySharingTest, StealsRoundRobin) {
  constexpr size_t kVictims = 4;
  // A cache's limit grows to 1, 2, 3, 4, 6, 9 and 13 steps; this is one of these numbers.
  constexpr size_t kSteps = 13;
  heap_.registry.SetTotalLimit((kVictims * kSteps + 4) * kCacheStepBytes);
  std::vector<std::unique_ptr<TestThread>> victims;
  for (size_t i = 0; i < kVictims; ++i) {
    victims.push_back(std::make_unique<TestThread>(heap_.registry));
    victims.back()->RaiseLimitTo(kSteps * kCacheStepBytes);
    ASSERT_EQ(victims.back()->cache()->max_bytes(), kSteps * kCacheStepBytes);
  }
  TestThread thief(heap_.registry);
  while (heap_.registry.limits().total > 0 && thief.cache()->max_bytes() < 4 * kCacheStepBytes) {
    heap_.registry.RaiseLimit(thief.cache());
  }
  for (int round = 1; round <= 3; ++round) {
    for (size_t i = 0; i < kVictims; ++i) heap_.registry.RaiseLimit(thief.cache());
    for (auto& victim : victims) {
      EXPECT_EQ(victim->cache()->max_bytes(),
                (kSteps - static_cast<size_t>(round)) * kCacheStepBytes);
    }
  }
  // The thread of the next victim ends. The stealing continues with the one after it.
  victims[1]->Exit();
  heap_.registry.RaiseLimit(thief.cache());
  heap_.registry.CheckInvariants();
  for (const size_t i : {0, 2, 3}) victims[i]->Exit();
}

// Allocates and frees 30 objects of each of many classes; returns the largest claim.
size_t LargestClaimOfManyClasses(TestThread& thread, int rounds) {
  size_t largest = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const size_t size : {256, 512, 768, 1024, 1536, 2048, 3072, 4096}) {
      thread.Use(ClassForSize(size), 30);
      largest = std::max(largest, thread.cache()->claimed_bytes());
    }
  }
  return largest;
}

// While nothing is unclaimed, claims beyond the objects in a bin are not counted, up to the
// excess. Setting a total takes away the excess that caches already use.
TEST_F(RegistrySharingTest, UnfilledClaimsMayExceedAShortBudgetButNotATotalThatIsSet) {
  heap_.page_heap.hints().retention.SetTotal(4 * kInitialCacheBytes);
  TestThread thread(heap_.registry);
  TestThread other(heap_.registry);
  const size_t largest = LargestClaimOfManyClasses(thread, 100);
  const size_t limit = thread.cache()->max_bytes();
  ASSERT_EQ(limit, kInitialCacheBytes);
  EXPECT_GT(largest, limit);
  EXPECT_LE(largest, limit + CacheBudget::Excess(limit, SIZE_MAX));
  thread.table().CheckInvariants();
  heap_.registry.SetTotalLimit(2 * kInitialCacheBytes);
  thread.cache()->Flush();
  EXPECT_LE(LargestClaimOfManyClasses(thread, 1), thread.cache()->max_bytes());
}

// Other bins claim the whole budget, and collections are rare. Nevertheless a class without a bin
// gets one after a few hundred slow calls.
TEST_F(RegistrySharingTest, AClassWithoutABinGetsOneThoughTheBudgetIsShort) {
  for (const bool by_allocating : {true, false}) {
    CacheTestHeap heap;
    heap.registry.SetTotalLimit(0);
    TestThread thread(heap.registry);
    const SizeClass c = ClassForSize(16);
    std::vector<void*> objects;
    for (int i = 0; i < 2000; ++i) objects.push_back(thread.Allocate(c));
    thread.cache()->Flush();
    for (int round = 0; round < 100; ++round) {
      for (const size_t size : {1024, 2048, 4096}) thread.Use(ClassForSize(size), 64);
    }
    ASSERT_EQ(thread.cache()->max_bytes(), kInitialCacheBytes);
    // There is no room for another bin before the next collection, which is not due yet.
    thread.cache()->CollectGarbage();
    thread.cache()->SetMaxBytes(thread.cache()->claimed_bytes());
    size_t calls = 0;
    while (thread.table().Array(Index(c)) == nullptr) {
      if (by_allocating) {
        thread.Allocate(c);
      } else {
        thread.Free(c, objects.back());
        objects.pop_back();
      }
      ASSERT_LT(++calls, 300u);
    }
    RecordProperty(by_allocating ? "allocations" : "frees", static_cast<int>(calls));
    thread.Exit();
  }
}

TEST_F(RegistrySharingTest, ABinThatMayNotGrowMovesHalf) {
  heap_.registry.SetTotalLimit(0);
  TestThread thread(heap_.registry);
  const SizeClass c = ClassForSize(4096);
  std::vector<void*> objects;
  for (int i = 0; i < 200; ++i) objects.push_back(thread.Allocate(c));
  // Frees fill the bin beyond the limit that the budget allows.
  size_t largest = 0;
  size_t least_after = SIZE_MAX;
  for (void* const object : objects) {
    const size_t before = thread.CachedObjects(c);
    thread.Free(c, object);
    const size_t after = thread.CachedObjects(c);
    largest = std::max(largest, before);
    if (after < before) least_after = std::min(least_after, after);
  }
  ASSERT_LT(largest, bin_policy::Batch(c)) << "the limit is below a batch";
  EXPECT_EQ(least_after, largest - bin_policy::MoveCountWithoutGrowth(c, largest) + 1);
  // Allocations empty the bin. The next one fetches half of the limit.
  while (thread.CachedObjects(c) > 0) thread.Allocate(c);
  thread.Allocate(c);
  EXPECT_EQ(thread.CachedObjects(c), bin_policy::RefillCountWithoutGrowth(c, largest) - 1);
}

// While nothing is unclaimed, a cache moves kShortBackoff times its limit between two collections.
// A collection takes a part of the bin that nothing uses.
TEST_F(RegistrySharingTest, CollectionsAreRareWhileTheBudgetIsShort) {
  heap_.registry.SetTotalLimit(0);
  TestThread thread(heap_.registry);
  const SizeClass unused = ClassForSize(64);
  const SizeClass busy = ClassForSize(2048);
  LeaveStale(thread, unused, 500);
  size_t moved = 0;  // objects from or to the central free list since the last collection
  for (int collections = 0; collections < 4; ++collections) {
    const size_t left = thread.CachedObjects(unused);
    moved = 0;
    while (thread.CachedObjects(unused) == left) {
      std::vector<void*> objects;
      for (int i = 0; i < 24; ++i) {
        const size_t before = thread.CachedObjects(busy);
        objects.push_back(thread.Allocate(busy));
        moved += thread.CachedObjects(busy) + 1 - before;
      }
      for (void* const object : objects) {
        const size_t before = thread.CachedObjects(busy);
        thread.Free(busy, object);
        moved += before + 1 - thread.CachedObjects(busy);
      }
    }
  }
  const size_t limits = moved * kSizeClasses.size(busy) / thread.cache()->max_bytes();
  EXPECT_GE(limits, kShortBackoff);
  EXPECT_LT(limits, 2 * kShortBackoff);
  thread.Exit();
}

// While nothing is unclaimed, an unused bin of few bytes keeps its objects when an unused bin of
// many bytes loses some. Later it drains, too.
TEST_F(RegistrySharingTest, WhileTheBudgetIsShortABinOfFewBytesStaysForLonger) {
  heap_.registry.SetTotalLimit(0);
  TestThread thread(heap_.registry);
  const SizeClass busy = ClassForSize(2048);
  // Until a collection has found nothing unclaimed, no bin is spared.
  for (int round = 0; round < 10; ++round) thread.Use(busy, 64);
  const SizeClass few = ClassForSize(64);
  const SizeClass many = ClassForSize(256);
  LeaveStale(thread, few, 24);
  LeaveStale(thread, many, 100);
  const BinTable& table = thread.table();
  const size_t of_few = table.CachedObjects(few);
  const size_t of_many = table.CachedObjects(many);
  size_t rounds = 0;
  while (table.CachedObjects(many) == of_many) {
    thread.Use(busy, 64);
    ASSERT_LT(++rounds, 1000u);
  }
  EXPECT_EQ(table.CachedObjects(few), of_few);
  while (table.CachedObjects(few) > 0) {
    thread.Use(busy, 64);
    ASSERT_LT(++rounds, 1000u);
  }
  EXPECT_EQ(table.CachedObjects(many), 0u);
}

// One thread flushes the caches, another one also detaches and reattaches them.
TEST_F(RegistrySharingTest, FlushesAndBypassesWhileThreadsWork) {
  static std::atomic<bool> bypass;
  constexpr size_t kThreads = 8;
  constexpr int kFlushes = 1000;
  heap_.registry.SetTotalLimit(8 * kCacheStepBytes);
  std::atomic<bool> stop{false};
  std::atomic<size_t> moved{0};
  std::atomic<size_t> operations{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(kSharingSeed + t);
      while (!stop.load(std::memory_order_relaxed)) {
        TestThread thread(heap_.registry);
        std::vector<std::pair<SizeClass, uint64_t*>> held;
        for (int step = 0; step < 20000; ++step) {
          if (held.empty() || (held.size() < 500 && random.OneIn(2))) {
            const SizeClass c = ClassForSize(size_t{16} << random.Below(7));
            uint64_t* const object = static_cast<uint64_t*>(thread.Allocate(c));
            object[0] = reinterpret_cast<uint64_t>(object) ^ t;
            object[1] = t;
            held.emplace_back(c, object);
            operations.fetch_add(1, std::memory_order_relaxed);
          } else {
            std::swap(held[random.Below(held.size())], held.back());
            uint64_t* const object = held.back().second;
            ASSERT_EQ(object[0], reinterpret_cast<uint64_t>(object) ^ t);
            ASSERT_EQ(object[1], t);
            thread.Free(held.back().first, object);
            held.pop_back();
          }
        }
        for (const auto& [c, object] : held) thread.Free(c, object);
        thread.Exit();
      }
    });
  }
  std::vector<std::thread> flushers;
  for (int f = 0; f < 2; ++f) {
    flushers.emplace_back([&, f] {
      for (int i = 0; i < kFlushes / 2; ++i) {
        if (f == 0) {
          bypass = i % 2 == 0 && i + 1 < kFlushes / 2;
          heap_.registry.UpdateBypass([] { return bypass.load(); }, nullptr);
        }
        // Waits until the threads have done some operations since the last flush, even on a machine
        // with few cores.
        const size_t before = operations.load();
        while (operations.load() < before + 50) sched_yield();
        // Statistics may be read at any time.
        EXPECT_LE(TotalsOf(heap_.registry).caches, kThreads);
        ThreadStacksHold(heap_.registry, 0, UINTPTR_MAX);
        moved += heap_.registry.FlushAll(nullptr);
      }
    });
  }
  for (std::thread& flusher : flushers) flusher.join();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(moved.load(), 0u);
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 0u);
  heap_.registry.CheckInvariants();
  EXPECT_EQ(heap_.page_heap.GetStats().small_span_bytes, 0u);
  heap_.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
