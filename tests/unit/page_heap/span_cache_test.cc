// SPDX-License-Identifier: BSD-3-Clause
// PageHeapFuzzTest compares the span caches of a page heap with a model.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "page_heap/span_home.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

TEST(SpanCacheTest, KeepsTheFirstThatFit) {
  // The pages of these spans do not exist and are never accessed.
  std::array<Span, 5> records;
  std::array<Span*, 5> spans;
  for (size_t i = 0; i < spans.size(); ++i) {
    spans[i] = &records[i];
    spans[i]->first_page = PageId(1000 * (i + 1));
    spans[i]->num_pages = Length(i < 4 ? 3 : kMaxKeptPages + 1);
    spans[i]->state.store(SpanState::kSmall);
  }
  const size_t bytes = spans[0]->bytes();
  SpinLock lock(LockRank::kShard);
  SpanCache cache(lock);
  EXPECT_EQ(cache.Put(spans.data(), 4, true, 3 * bytes - 1), 2u);
  EXPECT_EQ(cache.bytes(), 2 * bytes);
  EXPECT_EQ(cache.count(Length(3)), 2u);
  EXPECT_EQ(cache.Put(&spans[2], 2, false, 4 * bytes), 2u);
  EXPECT_EQ(cache.Put(&spans[4], 1, true, 4 * kMiB), 0u) << "too long";

  std::array<Span*, 5> taken;
  EXPECT_EQ(cache.Take(Length(2), taken.data(), 4), 0u);
  EXPECT_EQ(cache.Take(spans[4]->num_pages, taken.data(), 4), 0u);
  ASSERT_EQ(cache.Take(Length(3), taken.data(), 3), 3u);
  EXPECT_EQ(taken[0], spans[1]);
  EXPECT_EQ(taken[1], spans[0]);
  EXPECT_EQ(taken[2], spans[2]);
  EXPECT_EQ(cache.Take(Length(3), taken.data(), 5), 1u);
  EXPECT_EQ(taken[0], spans[3]);
  EXPECT_EQ(cache.bytes(), 0u);
}

}  // namespace
}  // namespace tcmalloc
