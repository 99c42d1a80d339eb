// SPDX-License-Identifier: BSD-3-Clause
// SpanPool with several threads, and around fork.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "span_pool_fixture.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

// Threads replace objects in two pools, and drain them. A page of an object never belongs to two.
TEST_F(SpanPoolTest, ThreadsShareNothing) {
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
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(100 + t);
      std::vector<Span*> own;
      for (int step = 0; step < 5000; ++step) {
        const size_t home = random.OneIn(8) ? t % 2 : (t + 1) % 2;
        if (own.size() < 12 && random.OneIn(2)) {
          own.push_back(New(random.Between(1, 40), home));
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
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(heap_.GetStats().large_spans, 0u);
  heap_.CheckInvariants();
}

// The program frees an object in two threads by mistake: exactly one of them frees it.
TEST_F(SpanPoolTest, OneOfTwoFreesWins) {
  for (int round = 0; round < 2000; ++round) {
    Span* const span = New(20);
    std::atomic<int> won{0};
    std::atomic<int> ready{0};
    const auto free_it = [&](size_t home) {
      ready.fetch_add(1);
      while (ready.load() < 2) {
      }
      won.fetch_add(Free(span, home) ? 1 : 0);
    };
    std::thread other(free_it, 1);
    free_it(0);
    other.join();
    ASSERT_EQ(won.load(), 1);
  }
  heap_.CheckInvariants();
}

// Runs both at once, again and again, after prepare().
void Race(int rounds, const std::function<void()>& prepare, const std::function<void()>& one,
          const std::function<void()>& other) {
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  std::thread thread([&] {
    for (int round = 1; round <= rounds; ++round) {
      while (begun.load() < round) sched_yield();
      other();
      ended.store(round);
    }
  });
  for (int round = 1; round <= rounds; ++round) {
    prepare();
    begun.store(round);
    one();
    while (ended.load() < round) sched_yield();
  }
  thread.join();
}

// The program frees an object and resizes it in another thread by mistake. A resize after the free
// finds no object, and one before it is complete.
TEST_F(SpanPoolTest, AFreeAndAResizeExclude) {
  Span* span = nullptr;
  void* object = nullptr;
  bool freed = false;
  bool resized = false;
  Race(
      20'000,
      [&] {
        if (span != nullptr && !freed) {
          ASSERT_TRUE(Free(span));
        }
        heap_.DrainSpanCaches();
        ASSERT_EQ(heap_.GetStats().large_span_bytes, 0u);
        span = New(40);
        object = span->start_address();
      },
      [&] { freed = heap_.DeleteLargeAt(span, object, nullptr, &under_test_.homes[0]); },
      [&] { resized = heap_.ResizeLargeAt(span, object, Length(20)); });
  EXPECT_TRUE(freed || resized);
  heap_.CheckInvariants();
}

// One thread frees the object into a pool, the other to the free spans.
TEST_F(SpanPoolTest, AFreeWithAPoolAndOneWithoutExclude) {
  Span* span = nullptr;
  void* object = nullptr;
  bool kept = false;
  bool freed = false;
  Race(
      20'000,
      [&] {
        ASSERT_TRUE(span == nullptr || kept != freed);
        heap_.DrainSpanCaches();
        span = New(40);
        object = span->start_address();
      },
      [&] { kept = heap_.DeleteLargeAt(span, object, nullptr, &under_test_.homes[0]); },
      [&] { freed = heap_.DeleteLargeAt(span, object); });
  EXPECT_NE(kept, freed);
  heap_.CheckInvariants();
}

// A reader of the statistics sees each home at a moment of its own.
TEST_F(SpanPoolTest, StatisticsOfMovingSpansAreNotNegative) {
  Span* const other = New(40, 1);
  New(1);
  size_t most_spans = 0;
  size_t most_bytes = 0;
  EXPECT_TRUE(Free(New(40)));
  EXPECT_TRUE(Free(other, 1));
  Race(
      20'000, [] {},
      [&] {
        for (size_t home = 0; home < 2; ++home) {
          EXPECT_TRUE(Free(New(40, home), (home + 1) % 2));
        }
      },
      [&] {
        const PageStats stats = heap_.GetStats();
        most_spans = std::max(most_spans, stats.large_spans);
        most_bytes = std::max(most_bytes, stats.large_span_bytes);
      });
  EXPECT_LE(most_spans, 4u);
  EXPECT_LE(most_bytes, 200 * kPageSize);
}

// A thread takes spans out of a pool while another one forks.
TEST_F(SpanPoolTest, AForkedChildLosesNoKeptSpan) {
  std::atomic<bool> stop{false};
  std::thread drains([&] {
    while (!stop.load()) heap_.DrainSpanCaches();
  });
  int wrong = 0;
  for (int round = 0; round < 200 && wrong == 0; ++round) {
    std::array<Span*, 32> spans;
    for (Span*& span : spans) span = New(2);
    for (size_t i = 0; i < spans.size(); i += 2) EXPECT_TRUE(Free(spans[i]));
    heap_.ForEachLock([](SpinLock& lock) { lock.HoldForFork(); });
    const pid_t child = fork();
    if (child == 0) {
      heap_.ForEachLock([](SpinLock& lock) { lock.ResetAfterForkInChild(); });
      heap_.DrainSpanCaches();
      _exit(heap_.GetStats().large_span_bytes == 32 * kPageSize ? 0 : 1);
    }
    heap_.ForEachLock([](SpinLock& lock) { lock.ReleaseAfterForkInParent(); });
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    for (size_t i = 1; i < spans.size(); i += 2) EXPECT_TRUE(Free(spans[i]));
  }
  stop = true;
  drains.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tcmalloc
