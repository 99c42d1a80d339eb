// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/span.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

TEST(SpanTest, ContainsItsBytesAndNoOthers) {
  Span span;
  span.first_page = PageId(100);
  span.num_pages = Length(3);
  const auto contains = [&span](uintptr_t address) {
    return span.Contains(reinterpret_cast<void*>(address));
  };
  const uintptr_t start = 100 * kPageSize;
  EXPECT_EQ(span.start_address(), reinterpret_cast<void*>(start));
  EXPECT_EQ(span.bytes(), 3 * kPageSize);
  EXPECT_EQ(span.last_page(), PageId(102));
  EXPECT_FALSE(contains(start - 1));
  EXPECT_TRUE(contains(start));
  EXPECT_TRUE(contains(start + 3 * kPageSize - 1));
  EXPECT_FALSE(contains(start + 3 * kPageSize));
  EXPECT_FALSE(contains(0));
  EXPECT_FALSE(contains(UINTPTR_MAX));
}

TEST(SpanTest, ShorterSpansComeFirstThenLowerAddresses) {
  Span a, b;
  a.first_page = PageId(10);
  b.first_page = PageId(20);
  a.num_pages = b.num_pages = Length(5);
  EXPECT_TRUE(Span::Before(a, b));
  EXPECT_FALSE(Span::Before(b, a));
  EXPECT_FALSE(Span::Before(a, a));
  a.num_pages = Length(6);
  EXPECT_FALSE(Span::Before(a, b));
  EXPECT_TRUE(Span::Before(b, a));
}

}  // namespace
}  // namespace tcmalloc
