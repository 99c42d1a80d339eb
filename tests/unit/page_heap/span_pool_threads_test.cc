// SPDX-License-Identifier: BSD-3-Clause
// SpanPool with several threads.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "page_heap_fixture.h"
#include "span_pool_fixture.h"
#include "testing/random.h"
#include "testing/run_threads.h"

namespace tcmalloc {
namespace {

constexpr size_t kLastHome = PageHeapUnderTest::kHomes - 1;

class SpanPoolPageSizeTest : public SpanPoolTest, public testing::WithParamInterface<size_t> {
 protected:
  SpanPoolPageSizeTest() : SpanPoolTest(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(HardwarePages, SpanPoolPageSizeTest, testing::Values(4096, 65536));

// Threads replace objects in two pools, and drain the pools. A page never belongs to two objects.
TEST_P(SpanPoolPageSizeTest, ThreadsShareNothing) {
  constexpr size_t kThreads = 4;
  constexpr size_t kPages = 1 << 14;
  std::vector<std::atomic<int>> owners(kPages);
  const PageId base(under_test_.vm.base() >> kPageShift);
  const auto mark = [&](const Span* span, int from, int to) {
    for (PageId page = span->first_page; page < span->end(); page += Length(1)) {
      const size_t i = (page - base).pages();
      ASSERT_LT(i, kPages);
      int expected = from;
      ASSERT_TRUE(owners[i].compare_exchange_strong(expected, to)) << "of thread " << expected;
    }
  };
  RunThreads(kThreads, [&](size_t t) {
    SeededRandom random(100 + t);
    std::vector<Span*> own;
    for (int step = 0; step < 5000; ++step) {
      const size_t home = random.OneIn(8) ? t % 2 : (t + 1) % 2;
      if (own.size() < 12 && random.OneIn(2)) {
        own.push_back(New(random.Between(1, 40), home));
        mark(own.back(), 0, static_cast<int>(t) + 1);
      } else if (!own.empty() && random.OneIn(4)) {
        mark(own.back(), static_cast<int>(t) + 1, 0);
        static_cast<void>(Resize(own.back(), random.Between(1, 60)));
        mark(own.back(), 0, static_cast<int>(t) + 1);
      } else if (!own.empty()) {
        std::swap(own[random.Below(own.size())], own.back());
        mark(own.back(), static_cast<int>(t) + 1, 0);
        EXPECT_TRUE(Free(own.back(), home));
        own.pop_back();
      }
      if (random.OneIn(200)) heap_.DrainSpanCaches();
      if (random.OneIn(200)) heap_.GetStats();
    }
    for (Span* const span : own) {
      mark(span, static_cast<int>(t) + 1, 0);
      EXPECT_TRUE(Free(span, t % 2));
    }
  });
  EXPECT_EQ(heap_.GetStats().large_spans, 0u);
}

// Calls work() again and again. At random moments of it, when it may hold the page heap's lock,
// calls other() in another thread, and lets work() continue when that has returned.
class Interruption {
 public:
  static void Run(int times, const std::function<void()>& work,
                  const std::function<void()>& other) {
    asked_ = 0;
    answered_ = 0;
    struct sigaction action = {};
    struct sigaction old_action;
    action.sa_handler = [](int) {
      const int number = asked_.load() + 1;
      asked_ = number;
      while (answered_.load() < number) sched_yield();
    };
    ASSERT_EQ(sigaction(SIGUSR1, &action, &old_action), 0);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    // The other thread must inherit the blocked signal.
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &signals, nullptr), 0);
    std::thread thread([&] {
      for (int number = 1; number <= times; ++number) {
        while (asked_.load() < number) sched_yield();
        other();
        answered_ = number;
      }
    });
    ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &signals, nullptr), 0);
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    timer_t timer;
    ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    SeededRandom random(20261126);
    for (int number = 1; number <= times; ++number) {
      const itimerspec once = {{0, 0}, {0, static_cast<long>(random.Between(1, 30'000))}};
      ASSERT_EQ(timer_settime(timer, 0, &once, nullptr), 0);
      while (asked_.load() < number) work();
    }
    ASSERT_EQ(timer_delete(timer), 0);
    thread.join();
    ASSERT_EQ(sigaction(SIGUSR1, &old_action, nullptr), 0);
  }

 private:
  static inline std::atomic<int> asked_{0};
  static inline std::atomic<int> answered_{0};
};

// By mistake, the program frees an object that another thread resizes. A resize after the free
// finds no object, and a resize before the free is complete.
TEST_F(SpanPoolTest, AFreeAndAResizeExclude) {
  // The object comes from the page heap itself. If it came from a pool, a thread that is
  // interrupted with the pool's lock held would keep the other one from freeing into the pool.
  Span* span = Direct(40);
  void* const object = span->start_address();
  Interruption::Run(
      3000,
      [&] {
        if (heap_.ResizeLargeAt(span, object, Length(20))) {
          EXPECT_FALSE(span->Is(SpanState::kLarge) && span->num_pages != Length(20));
        }
        static_cast<void>(heap_.ResizeLargeAt(span, object, Length(40)));
        if (span->IsLargeAt(object)) return;
        heap_.DrainSpanCaches();
        ASSERT_EQ(heap_.GetStats().large_span_bytes, 0u);
        // The other thread may free it again at once.
        span = Direct(40);
        ASSERT_EQ(span->first_page, PageId::Containing(object));
      },
      [&] {
        static_cast<void>(heap_.DeleteLargeAt(span, object, nullptr, &under_test_.homes[0]));
      });
  heap_.DrainSpanCaches();
}

// Two threads free one object at the same time, into two pools.
TEST_F(SpanPoolTest, OneOfTwoFreesWins) {
  for (int round = 0; round < 1000; ++round) {
    Span* const span = Direct(20);
    // Keeps the next round's span from merging with this one and changing it.
    Direct(1);
    std::atomic<int> won{0};
    RunThreads(2, [&](size_t home) { won += Free(span, home); });
    ASSERT_EQ(won, 1);
  }
}

// One thread frees the object into a pool, the other one into the free spans.
TEST_F(SpanPoolTest, AFreeWithAPoolAndOneWithoutExclude) {
  std::atomic<Span*> current{nullptr};
  std::atomic<int> freed{0};
  Interruption::Run(
      3000,
      [&] {
        Span* const span = New(40);
        void* const object = span->start_address();
        freed = 0;
        current = span;
        freed += heap_.DeleteLargeAt(span, object) ? 1 : 0;
        current = nullptr;
        ASSERT_EQ(freed.load(), 1);
        heap_.DrainSpanCaches();
      },
      [&] {
        Span* const span = current.load();
        if (span == nullptr) return;
        freed += heap_.DeleteLargeAt(span, span->start_address(), nullptr, &under_test_.homes[0]);
      });
}

// A reader of the statistics reads each home at a different moment.
TEST_F(SpanPoolTest, StatisticsOfMovingSpansAreNotNegative) {
  // Takes the records that both pools need from the page heap.
  for (const size_t home : {size_t{0}, kLastHome}) {
    EXPECT_TRUE(Free(New(40, home), kLastHome - home));
  }
  EXPECT_TRUE(Free(New(40), kLastHome));
  heap_.DrainSpanCaches();
  EXPECT_TRUE(Free(New(40), kLastHome));
  size_t most_spans = 0;
  size_t most_bytes = 0;
  size_t home = kLastHome;
  Interruption::Run(
      1000,
      [&] {
        const PageStats stats = heap_.GetStats();
        most_spans = std::max(most_spans, stats.large_spans);
        most_bytes = std::max(most_bytes, stats.large_span_bytes);
      },
      [&] {
        const size_t next = kLastHome - home;
        EXPECT_TRUE(Free(New(40, home), next));
        home = next;
      });
  EXPECT_LE(most_spans, 1u);
  EXPECT_LE(most_bytes, 40 * kPageSize);
}

// While a span moves from a pool to the page heap, no thread can fork: the child would lose the
// span.
TEST_F(SpanPoolTest, ASpanLeavesWithTheLockHeld) {
  EXPECT_TRUE(Free(Direct(40)));
  Span* span = nullptr;
  Pool().GiveLongest(0, Length(41), [&](Span* given) { span = given; });
  Pool().GiveLongest(40 * kPageSize, Length(0), [&](Span* given) { span = given; });
  EXPECT_EQ(span, nullptr);
  Pool().GiveLongest(0, Length(40), [&](Span* given) {
    span = given;
    EXPECT_TRUE(under_test_.homes[0].LockOfHome::lock.HeldByThisThread());
  });
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(span->owner.load(), 0u);
  heap_.Delete(span);
}

}  // namespace
}  // namespace tcmalloc
