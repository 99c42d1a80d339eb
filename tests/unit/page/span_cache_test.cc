// SPDX-License-Identifier: BSD-3-Clause
#include "page/span_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/tuning.h"
#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

constexpr Length kLongest(kTuning.span_cache.max_pages);
// The most bytes that the cache under test may keep.
constexpr size_t kMost = 4 * kMiB;
constexpr bool kNear = true;
constexpr bool kFar = false;

class SpanCacheTest : public testing::Test {
 protected:
  // Makes a span record. Its pages do not exist and are never accessed.
  Span* Make(size_t pages) {
    spans_.push_back(std::make_unique<Span>());
    Span* const span = spans_.back().get();
    span->first_page = PageId(1000 * spans_.size());
    span->num_pages = Length(pages);
    span->state.store(SpanState::kSmall);
    return span;
  }
  Span* Put(size_t pages, bool near) {
    Span* const span = Make(pages);
    EXPECT_TRUE(TryPut(span, near));
    return span;
  }
  // Puts or takes one span.
  bool TryPut(Span* span, bool near) { return cache_.Put(&span, 1, near, kMost) == 1; }
  Span* TryTake(Length n) {
    Span* span = nullptr;
    return cache_.Take(n, &span, 1) == 1 ? span : nullptr;
  }

  SpanCache cache_;
  std::vector<std::unique_ptr<Span>> spans_;
};

TEST_F(SpanCacheTest, NearBeforeFar) {
  Span* const far_first = Put(3, kFar);
  Span* const near_first = Put(3, kNear);
  Span* const far_last = Put(3, kFar);
  Span* const near_last = Put(3, kNear);
  for (Span* const expected : {near_last, near_first, far_first, far_last}) {
    EXPECT_EQ(TryTake(Length(3)), expected);
  }
}

TEST_F(SpanCacheTest, LongSpansAreRefused) {
  Span* const longest = Put(kTuning.span_cache.max_pages, kNear);
  for (const size_t pages : {kTuning.span_cache.max_pages + 1, kTuning.span_cache.max_pages + 2,
                             2 * kTuning.span_cache.max_pages, size_t{100'000}}) {
    EXPECT_FALSE(TryPut(Make(pages), kNear)) << pages;
    EXPECT_FALSE(TryPut(Make(pages), kFar)) << pages;
    EXPECT_EQ(TryTake(Length(pages)), nullptr) << pages;
  }
  EXPECT_EQ(cache_.bytes(), kLongest.bytes());
  EXPECT_EQ(TryTake(kLongest), longest);
}

TEST_F(SpanCacheTest, KeepsTheFirstThatFit) {
  constexpr size_t kSpans = 4;
  Span* spans[kSpans];
  for (Span*& span : spans) span = Make(3);
  const size_t bytes = spans[0]->bytes();
  EXPECT_EQ(cache_.Put(spans, kSpans, kNear, 3 * bytes - 1), 2u);
  EXPECT_EQ(cache_.bytes(), 2 * bytes);
  EXPECT_EQ(cache_.count(Length(3)), 2u);
  EXPECT_EQ(cache_.Put(spans + 2, 2, kFar, 4 * bytes), 2u);
  Span* const too_long = Make(kTuning.span_cache.max_pages + 1);
  EXPECT_EQ(cache_.Put(&too_long, 1, kNear, kMost), 0u);

  Span* taken[kSpans + 1];
  EXPECT_EQ(cache_.Take(Length(2), taken, kSpans), 0u);
  ASSERT_EQ(cache_.Take(Length(3), taken, 3), 3u);
  EXPECT_EQ(taken[0], spans[1]);
  EXPECT_EQ(taken[1], spans[0]);
  EXPECT_EQ(taken[2], spans[2]);
  EXPECT_EQ(cache_.Take(Length(3), taken, kSpans + 1), 1u);
  EXPECT_EQ(taken[0], spans[3]);
  EXPECT_EQ(cache_.bytes(), 0u);
}

TEST_F(SpanCacheTest, AgreesWithDeques) {
  SeededRandom random(12);
  std::array<std::deque<Span*>, kTuning.span_cache.max_pages + 1> model;
  size_t bytes = 0;
  size_t refused = 0;
  bool filling = true;
  for (int step = 0; step < 20'000; ++step) {
    if (bytes == kMost) filling = random.OneIn(2);
    if (bytes == 0) filling = true;
    if (step % 4000 == 3999) filling = false;
    if (random.Below(10) < (filling ? 9u : 2u)) {
      const size_t pages = random.Between(1, kTuning.span_cache.max_pages);
      Span* const span = Make(pages);
      const bool near = random.OneIn(2);
      const bool fits = bytes + span->bytes() <= kMost;
      ASSERT_EQ(TryPut(span, near), fits);
      if (fits) {
        near ? model[pages].push_front(span) : model[pages].push_back(span);
        bytes += span->bytes();
      } else {
        ++refused;
      }
    } else {
      const bool any = random.OneIn(4);
      size_t pages = random.Between(1, kTuning.span_cache.max_pages);
      if (any) {
        pages = kTuning.span_cache.max_pages;
        while (pages > 1 && model[pages].empty()) --pages;
      }
      Span* const expected = model[pages].empty() ? nullptr : model[pages].front();
      ASSERT_EQ(any ? cache_.TakeAny() : TryTake(Length(pages)), expected);
      if (expected != nullptr) {
        model[pages].pop_front();
        bytes -= expected->bytes();
      }
    }
    ASSERT_EQ(cache_.bytes(), bytes);
  }
  EXPECT_GT(refused, 100u);
}

// Threads put and take at once: no two threads get the same span. (ThreadSanitizer checks the
// records.)
TEST_F(SpanCacheTest, ManyThreads) {
  constexpr size_t kThreads = 4;
  constexpr size_t kSpans = 40;
  // All spans fit into the cache at once.
  constexpr size_t kPages = 4;
  static_assert(Length(kThreads * kSpans * (1 + kPages) / 2).bytes() <= kMost);
  for (size_t i = 0; i < kThreads * kSpans; ++i) Make(1 + i % kPages);
  std::vector<std::thread> threads;
  std::vector<std::vector<Span*>> held(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t i = 0; i < kSpans; ++i) held[t].push_back(spans_[t * kSpans + i].get());
    threads.emplace_back([&, t] {
      SeededRandom random(500 + t);
      std::vector<Span*>& mine = held[t];
      for (int step = 0; step < 5000; ++step) {
        if (!mine.empty() && random.OneIn(2)) {
          ASSERT_EQ(mine.back()->num_objects, mine.back()->free_count);
          ASSERT_TRUE(TryPut(mine.back(), random.OneIn(2)));
          mine.pop_back();
        } else {
          Span* const span =
              random.OneIn(3) ? cache_.TakeAny() : TryTake(Length(random.Between(1, kPages)));
          if (span == nullptr) continue;
          ++span->num_objects;
          ++span->free_count;
          mine.push_back(span);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t outside = 0;
  for (const std::vector<Span*>& mine : held) {
    for (const Span* const span : mine) outside += span->bytes();
  }
  size_t all = 0;
  for (const auto& span : spans_) all += span->bytes();
  EXPECT_EQ(cache_.bytes(), all - outside);
  while (Span* const span = cache_.TakeAny()) outside += span->bytes();
  EXPECT_EQ(outside, all);
  EXPECT_EQ(cache_.bytes(), 0u);
}

}  // namespace
}  // namespace tcmalloc
