// SPDX-License-Identifier: BSD-3-Clause
// PageHeap::ListSpans lists every page of the heap in exactly one span, in order, for every number
// of spans per call.
#include <gtest/gtest.h>

#include <vector>

#include "page/page_heap_fixture.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

class ListSpansTest : public testing::Test {
 protected:
  // Lists all spans, `at_once` per call.
  std::vector<SpanView> All(size_t at_once) {
    std::vector<SpanView> all;
    std::vector<SpanView> some(at_once);
    PageId from;
    while (const size_t n = heap_.heap.store()->ListSpans(from, some.data(), at_once)) {
      EXPECT_LE(n, at_once);
      all.insert(all.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(n));
      from = all.back().first_page + all.back().num_pages;
    }
    return all;
  }
  static Length Pages(const std::vector<SpanView>& spans, SpanState state) {
    Length sum;
    for (const SpanView& span : spans) {
      if (span.state == state) sum += span.num_pages;
    }
    return sum;
  }

  PageHeapUnderTest heap_{FakeVirtualMemory::Options()};
};

TEST_F(ListSpansTest, AllPagesInOrder) {
  SeededRandom random(88);
  std::vector<Span*> spans;
  for (int step = 0; step < 600; ++step) {
    if (spans.empty() || random.OneIn(2)) {
      spans.push_back(heap_.heap.New(Length(random.Between(1, 300)),
                                     random.OneIn(2) ? SpanState::kSmall : SpanState::kLarge));
      ASSERT_NE(spans.back(), nullptr);
    } else {
      std::swap(spans[random.Below(spans.size())], spans.back());
      heap_.heap.Delete(spans.back());
      spans.pop_back();
    }
    if (step % 50 == 49) heap_.heap.ReleaseAtLeast(Length(20));
    if (step % 20 != 0) continue;
    const std::vector<SpanView> all = All(1000);
    const PageStats stats = heap_.heap.GetStats();
    EXPECT_EQ(Pages(all, SpanState::kSmall).bytes(), stats.small_span_bytes);
    EXPECT_EQ(Pages(all, SpanState::kLarge).bytes(), stats.large_span_bytes);
    EXPECT_EQ(Pages(all, SpanState::kFreeBacked).bytes(), stats.free_backed_bytes);
    EXPECT_EQ(Pages(all, SpanState::kFreeReleased).bytes(), stats.free_released_bytes);
    for (size_t i = 1; i < all.size(); ++i) {
      EXPECT_GE(all[i].first_page, all[i - 1].first_page + all[i - 1].num_pages);
    }
    for (const size_t at_once : {1, 7}) {
      const std::vector<SpanView> same = All(at_once);
      ASSERT_EQ(same.size(), all.size());
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(same[i].first_page, all[i].first_page);
    }
  }
}

// If it starts in the middle of a span, it lists that span, even after the last beginning of a
// span.
TEST_F(ListSpansTest, FromAnywhere) {
  Span* const span = heap_.heap.New(Length(100), SpanState::kLarge);
  Span* const behind = heap_.heap.New(Length(50), SpanState::kLarge);
  ASSERT_EQ(behind->first_page, span->first_page + Length(100));
  SpanView view;
  ASSERT_EQ(heap_.heap.store()->ListSpans(span->first_page + Length(40), &view, 1), 1u);
  EXPECT_EQ(view.first_page, span->first_page);
  ASSERT_EQ(heap_.heap.store()->ListSpans(behind->first_page, &view, 1), 1u);
  EXPECT_EQ(view.span, behind);
  const PageId boundary = behind->first_page;
  heap_.heap.Delete(behind);
  heap_.heap.Delete(span);
  ASSERT_EQ(heap_.heap.store()->ListSpans(boundary, &view, 1), 1u);
  EXPECT_LT(view.first_page, boundary);
  EXPECT_NE(view.state, SpanState::kUnused);
  EXPECT_GT(view.first_page + view.num_pages, boundary);
}

}  // namespace
}  // namespace tcmalloc
