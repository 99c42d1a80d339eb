// SPDX-License-Identifier: BSD-3-Clause
// Threads that come by. How long one was away is what its cache remembers, so a test moves that
// instead of waiting; the clock that runs is that of the page heap's policy, which is made as quick
// as it can be.
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "base/tuning.h"
#include "cache/cache_fixture.h"
#include "os/clock.h"
#include "runtime/current_thread.h"
#include "runtime/idle_release.h"
#include "runtime/runtime_fixture.h"

namespace tcmalloc {
namespace {

using idle_release_policy::BudgetUs;
using idle_release_policy::kRules;
using idle_release_policy::MaxInterval;
using idle_release_policy::NextInterval;

constexpr uint64_t kNever = Countdown::kNever;
// That of what a thread comes by with, where it is of no importance.
constexpr size_t kObjectBytes = 100;

static_assert(BudgetUs(0) == 0 && BudgetUs(kRules.idle_ms - 1) == 0);
static_assert(BudgetUs(kRules.idle_ms) == kRules.idle_ms * 1000 / 100);
static_assert(BudgetUs(1000) == 10'000);
static_assert(BudgetUs(2000) == kRules.max_budget_us && BudgetUs(2001) == kRules.max_budget_us);
static_assert(BudgetUs(INT64_MAX) == kRules.max_budget_us);
// A clock that goes back is no time away.
static_assert(BudgetUs(-1000) == 0);

// A busy thread comes by twice as rarely each time.
TEST(ComeByPolicyTest, IntervalsGrowWhileTheThreadIsBusy) {
  uint64_t interval = 0;
  uint64_t expected = kRules.min_interval_bytes;
  for (; expected < kRules.max_interval_bytes; expected *= 2) {
    interval = NextInterval(interval, kRules.idle_ms - 1, 1);
    ASSERT_EQ(interval, expected);
  }
  for (int i = 0; i < 100; ++i) {
    interval = NextInterval(interval, 0, 1);
    ASSERT_EQ(interval, kRules.max_interval_bytes);
  }
  // One that was away comes with its next allocation, and is then looked at anew.
  EXPECT_EQ(NextInterval(interval, kRules.idle_ms, 1), 0u);
  EXPECT_EQ(NextInterval(0, kRules.idle_ms, 1), 0u);
  EXPECT_EQ(NextInterval(0, 0, 1), kRules.min_interval_bytes);
}

// Never with more than one in max_interval_objects of its objects, and of small ones as before.
TEST(ComeByPolicyTest, TheLongestIntervalIsManyObjects) {
  static_assert(MaxInterval(0) == kRules.max_interval_bytes);
  static_assert(MaxInterval(kRules.max_interval_bytes / kRules.max_interval_objects) ==
                kRules.max_interval_bytes);
  constexpr size_t kLarge = 5000;
  static_assert(MaxInterval(kLarge) == kLarge * kRules.max_interval_objects);
  uint64_t interval = 0;
  for (int i = 0; i < 20; ++i) {
    const uint64_t last = interval;
    interval = NextInterval(interval, 0, kLarge);
    ASSERT_LE(interval, kLarge * kRules.max_interval_objects);
    ASSERT_GE(interval, last);
  }
  EXPECT_EQ(interval, kLarge * kRules.max_interval_objects);
  // Its next small object shortens it.
  EXPECT_EQ(NextInterval(interval, 0, 8), kRules.max_interval_bytes);
  EXPECT_EQ(NextInterval(interval, kRules.idle_ms, kLarge), 0u);
}

class ComeByTest : public testing::Test {
 protected:
  ComeByTest() : thread_(heap_.registry) { heap_.page_heap.governor()->SetReleaseRate(1000); }

  // Free memory that the policy does not want to keep.
  void LeaveFreeMemory(Length n) {
    heap_.page_heap.governor()->SetReleaseRate(0);
    heap_.page_heap.Delete(heap_.page_heap.New(n, SpanState::kLarge));
    heap_.page_heap.governor()->SetReleaseRate(1000);
    // At this rate a peak is remembered for some milliseconds; the first of the two starts it.
    heap_.page_heap.ReleaseDue(Length(0), false);
    const int64_t start_ms = CoarseMilliseconds();
    while (CoarseMilliseconds() < start_ms + 50) WaitMillisecond();
    ASSERT_GE(FreeMapped(), n);
    ASSERT_TRUE(heap_.page_heap.release_pending());
  }
  Length FreeMapped() { return Length(heap_.page_heap.GetStats().free_mapped_bytes >> kPageShift); }
  static uint64_t BytesUntilVisit(TestThread& thread) {
    return thread.cache()->bins()->bytes_until_sample.load();
  }
  ThreadCache::Visits& visits() { return thread_.cache()->visits; }
  // Comes by until the visits end, which they do once the last alarm of all threads is old.
  void ComeByUntilTheEnd() {
    const int64_t start_ms = CoarseMilliseconds();
    for (ComeBy(heap_, thread_.cache(), kObjectBytes); BytesUntilVisit(thread_) != kNever;
         ComeBy(heap_, thread_.cache(), kObjectBytes)) {
      ASSERT_LE(BytesUntilVisit(thread_), kRules.max_interval_bytes);
      ASSERT_LT(CoarseMilliseconds(), start_ms + 60'000);
      WaitMillisecond();
    }
  }
  // Sees to it that all threads were alarmed less than a second ago.
  void AlarmAll() {
    TestThread sleeper(heap_.registry);
    sleeper.cache()->SetVisit(kNever);
    while (BytesUntilVisit(sleeper) != 0) {
      FreedSlowly(heap_, nullptr, true);
      WaitMillisecond();
    }
  }
  // As if the thread had last come by so long ago.
  void WasAway(int64_t ms) { visits().last_ms = CoarseMilliseconds() - ms; }

  Heap& heap_ = NewHeap();
  TestThread thread_;
};

constexpr Length kMuchFree = Length((size_t{64} << 20) >> kPageShift);

TEST_F(ComeByTest, VisitsEndWhenNothingIsPending) {
  LeaveFreeMemory(kMuchFree);
  ComeBy(heap_, thread_.cache(), kObjectBytes);
  WasAway(1'000'000);
  ComeBy(heap_, thread_.cache(), kObjectBytes);
  EXPECT_LE(FreeMapped(), Length::ForBytes(heap_.page_heap.Shares().free_pages));
  EXPECT_FALSE(heap_.page_heap.release_pending());
  EXPECT_EQ(BytesUntilVisit(thread_), 0u);
  ComeByUntilTheEnd();
  EXPECT_EQ(visits().interval, kNever);
  // Nor does anything start them again.
  for (int i = 0; i < 1000; ++i) FreedSlowly(heap_, thread_.cache(), i % 2 == 0);
  EXPECT_EQ(BytesUntilVisit(thread_), kNever);
}

// What is freed now alarms no one, since all were alarmed a moment ago: who came by since and found
// nothing must not stay away for good.
TEST_F(ComeByTest, VisitsGoOnWhileNoOneWouldBeAlarmed) {
  LeaveFreeMemory(kMuchFree);
  AlarmAll();
  heap_.page_heap.ReleaseAtLeast(kMuchFree);
  for (int i = 0; i < 3; ++i) {
    ComeBy(heap_, thread_.cache(), kObjectBytes);
    ASSERT_EQ(BytesUntilVisit(thread_), kRules.min_interval_bytes << i);
  }
  LeaveFreeMemory(kMuchFree);
  FreedSlowly(heap_, nullptr, true);
  WasAway(100'000);
  ComeBy(heap_, thread_.cache(), kObjectBytes);
  EXPECT_LT(FreeMapped(), kMuchFree);
}

// A slow free that gave the page heap much counts for more than the 64th of small objects.
TEST_F(ComeByTest, SlowFreesThatFreedManyPagesSetTheThreadsOwnCounter) {
  LeaveFreeMemory(kMuchFree);
  // The first two may be due for other reasons.
  FreedSlowly(heap_, thread_.cache(), true);
  FreedSlowly(heap_, thread_.cache(), false);
  thread_.cache()->SetVisit(kNever);
  FreedSlowly(heap_, thread_.cache(), false);
  ASSERT_EQ(BytesUntilVisit(thread_), kNever);
  Span* const span = heap_.page_heap.New(kTuning.release.look_every, SpanState::kLarge);
  heap_.page_heap.Delete(span);
  FreedSlowly(heap_, thread_.cache(), false);
  EXPECT_EQ(BytesUntilVisit(thread_), 0u);
  thread_.cache()->SetVisit(kNever);
  FreedSlowly(heap_, thread_.cache(), false);
  EXPECT_EQ(BytesUntilVisit(thread_), kNever) << "once";
}

TEST_F(ComeByTest, WithRateZeroThereAreNoVisits) {
  LeaveFreeMemory(kMuchFree);
  heap_.page_heap.governor()->SetReleaseRate(0);
  for (int i = 0; i < 1000; ++i) FreedSlowly(heap_, thread_.cache(), true);
  EXPECT_EQ(BytesUntilVisit(thread_), kNever);
  WasAway(1'000'000);
  ComeByUntilTheEnd();
  EXPECT_EQ(FreeMapped(), kMuchFree);
}

// Nothing is given back by a thread that is here all the time, whatever waits to be.
TEST_F(ComeByTest, ABusyThreadGivesNothingBack) {
  LeaveFreeMemory(kMuchFree);
  uint64_t expected = 0;
  for (int i = 0; i < 100; ++i) {
    // The first visit finds nothing to go by, the others a moment ago.
    if (i > 0) WasAway(i % 2 == 0 ? 0 : kRules.idle_ms - 20);
    ComeBy(heap_, thread_.cache(), kObjectBytes);
    ASSERT_EQ(FreeMapped(), kMuchFree) << i;
    ASSERT_EQ(BytesUntilVisit(thread_), expected) << i;
    expected = NextInterval(expected, 0, kObjectBytes);
  }
  EXPECT_EQ(expected, kRules.max_interval_bytes);
}

// Visits that ended and begin again know nothing of the time in between: the thread may have been
// busy.
TEST_F(ComeByTest, ABusyThreadGivesNothingBackWhenVisitsBeginAgain) {
  for (int round = 0; round < 3; ++round) {
    heap_.page_heap.ReleaseAtLeast(kMuchFree);
    ComeByUntilTheEnd();
    LeaveFreeMemory(kMuchFree);
    FreedSlowly(heap_, thread_.cache(), true);
    ASSERT_EQ(BytesUntilVisit(thread_), 0u);
    for (int i = 0; i < 3; ++i) {
      if (i > 0) WasAway(0);
      ComeBy(heap_, thread_.cache(), kObjectBytes);
      ASSERT_EQ(FreeMapped(), kMuchFree);
    }
  }
}

TEST_F(ComeByTest, AThreadThatWasAwayGivesBackAndComesAgain) {
  LeaveFreeMemory(kMuchFree);
  // Not known yet, and what it could be.
  ComeBy(heap_, thread_.cache(), kObjectBytes);
  ASSERT_EQ(FreeMapped(), kMuchFree);
  WasAway(kRules.idle_ms + 20);
  const int64_t before_ms = CoarseMilliseconds();
  ComeBy(heap_, thread_.cache(), kObjectBytes);
  EXPECT_GE(visits().last_ms, before_ms);
  EXPECT_LE(FreeMapped(), kMuchFree - kTuning.release.slice);
  EXPECT_EQ(BytesUntilVisit(thread_), 0u);
}

// A slow free lets the thread that does it come by; one in so many, unless the object is large.
TEST_F(ComeByTest, SlowFreesSetTheThreadsOwnCounter) {
  LeaveFreeMemory(kMuchFree);
  FreedSlowly(heap_, thread_.cache(), true);
  EXPECT_EQ(BytesUntilVisit(thread_), 0u);
  for (int round = 0; round < 3; ++round) {
    thread_.cache()->SetVisit(kNever);
    int frees = 0;
    while (BytesUntilVisit(thread_) == kNever && frees < 1000) {
      FreedSlowly(heap_, thread_.cache(), false);
      ++frees;
      // That of all threads, which happens to be due.
      if (frees == 1) thread_.cache()->SetVisit(kNever);
    }
    EXPECT_EQ(frees, 64);
  }
}

TEST_F(ComeByTest, AllThreadsAreAlarmedAtMostOnceASecond) {
  TestThread sleeper(heap_.registry);
  LeaveFreeMemory(kMuchFree);
  const auto alarmed = [&] { return BytesUntilVisit(sleeper) == 0; };
  const auto free_slowly = [&](int round) {
    // Also by threads that have no cache, and so nowhere to count.
    FreedSlowly(heap_, round == 0 ? thread_.cache() : nullptr, round != 1);
  };
  // Other tests of this process may have done it a moment ago.
  int64_t before_ms = 0;
  for (sleeper.cache()->SetVisit(kNever); !alarmed(); WaitMillisecond()) {
    before_ms = CoarseMilliseconds();
    FreedSlowly(heap_, thread_.cache(), true);
  }
  for (int round = 0; round < 3; ++round) {
    const int64_t last_ms = before_ms;
    thread_.cache()->SetVisit(kNever);
    sleeper.cache()->SetVisit(kNever);
    size_t calls = 0;
    for (; !alarmed(); WaitMillisecond()) {
      before_ms = CoarseMilliseconds();
      free_slowly(round);
      ASSERT_TRUE(alarmed() || BytesUntilVisit(thread_) == (round == 0 ? 0 : kNever));
      ++calls;
    }
    EXPECT_GE(CoarseMilliseconds(), last_ms + 1000);
    EXPECT_GT(calls, 1u);
  }
}

// There may be something to give back before the thread frees anything itself.
TEST(ComeByThreadTest, ANewThreadComesBy) {
  for (int i = 0; i < 3; ++i) {
    std::thread([] {
      ThreadCache* const cache = CurrentCache();
      ASSERT_NE(cache, nullptr);
      EXPECT_EQ(cache->bins()->bytes_until_sample.load(), 0u);
    }).join();
  }
}

}  // namespace
}  // namespace tcmalloc
