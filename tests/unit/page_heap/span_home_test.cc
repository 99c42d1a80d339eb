// SPDX-License-Identifier: BSD-3-Clause
// PageHeapFuzzTest compares the span caches of a page heap with a model, PageHeapZeroTest its
// pools.
#include "page_heap/span_home.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "page_heap/page_heap.h"
#include "span_pool_fixture.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

constexpr size_t kLongestPooled = kPoolChunk.pages();

TEST_F(SpanPoolTest, ServesWhatWasFreedHereLast) {
  Span* const a = Direct(40);
  Span* const between = Direct(1);
  Span* const b = Direct(40);
  clock_ms_ = 77;
  EXPECT_TRUE(Free(a));
  EXPECT_TRUE(Free(b));
  EXPECT_EQ(Pool().bytes(), 80 * kPageSize);
  EXPECT_EQ(New(40), b);
  EXPECT_EQ(New(40), a);
  EXPECT_EQ(a->in_use.handed_out_ms, 77);
  EXPECT_FALSE(a->zeroed());
  EXPECT_EQ(a->sample, nullptr);
  EXPECT_EQ(Pool().bytes(), 0u);
  EXPECT_TRUE(Free(between));
}

TEST_F(SpanPoolTest, CutsTheShortestThatIsLongEnough) {
  Span* const longer = Direct(50);
  Direct(1);
  Span* const shorter = Direct(30);
  Direct(1);
  EXPECT_TRUE(Free(longer));
  EXPECT_TRUE(Free(shorter));
  EXPECT_EQ(New(21), shorter);
  EXPECT_EQ(Pool().bytes(), 59 * kPageSize);
  heap_.store()->CheckInvariants();
  Span* const rest = New(9);
  EXPECT_EQ(rest->first_page, shorter->end());
  EXPECT_EQ(New(50), longer);
  EXPECT_EQ(Pool().bytes(), 0u);
}

// A request that the free memory cannot serve takes one kept span that is long enough, of any home.
// If none is long enough, it takes all of them.
TEST_F(SpanPoolTest, TheHeapTakesBackBeforeItGrows) {
  Span* const a = Direct(30);
  Direct(1);
  Span* const b = Direct(50);
  Direct(heap_.GetStats().free_released_bytes / kPageSize);
  EXPECT_TRUE(Free(a, 1));
  EXPECT_TRUE(Free(b, 2));
  const size_t growths = heap_.GetStats().growths;
  EXPECT_EQ(New(40, 3)->first_page, b->first_page);
  EXPECT_EQ(Pool(1).bytes(), 30 * kPageSize);
  EXPECT_EQ(Pool(2).bytes(), 0u);
  New(20, 3);
  EXPECT_EQ(heap_.GetStats().growths, growths);
  EXPECT_EQ(Pool(1).bytes(), 0u);
}

TEST_F(SpanPoolTest, JoinsNeighboursOfTheSameHomeOnly) {
  std::array<Span*, 5> spans;
  for (Span*& span : spans) span = Direct(20);
  const PageId first = spans[0]->first_page;
  for (size_t i = 0; i < spans.size(); ++i) {
    ASSERT_EQ(spans[i]->first_page, first + Length(20 * i)) << "the test needs adjacent spans";
  }
  EXPECT_TRUE(Free(spans[0]));
  EXPECT_TRUE(Free(spans[2]));
  EXPECT_TRUE(Free(spans[3], 1));
  heap_.store()->CheckInvariants();
  EXPECT_TRUE(Free(spans[1]));
  heap_.store()->CheckInvariants();
  Span* const joined = New(60);
  EXPECT_EQ(joined->first_page, first);
  EXPECT_EQ(Pool(0).bytes(), 0u);
  EXPECT_EQ(Pool(1).bytes(), 20 * kPageSize);
}

// One home may keep the whole share. While no thread runs idle release, a pool keeps less, because
// no thread would release the memory later.
TEST_F(SpanPoolTest, AllPoolsTogetherKeepTheShare) {
  const struct {
    size_t homes;
    bool unattended;
  } kRows[] = {{3, false}, {1, false}, {1, true}};
  for (const auto& [homes, unattended] : kRows) {
    SCOPED_TRACE(testing::Message() << homes << " " << unattended);
    heap_.hints().unattended.Set(unattended);
    size_t most = heap_.Shares().kept_spans;
    if (unattended) most = std::min(most, kUnattendedBytes);
    std::vector<Span*> spans;
    for (size_t i = 0; i < 2 * most / kMiB; ++i) {
      spans.push_back(Direct(kLongestPooled));
      Direct(1);
    }
    size_t home = 0;
    for (Span* const span : spans) EXPECT_TRUE(Free(span, home++ % homes));
    const size_t kept = heap_.GetStats().kept_span_bytes;
    EXPECT_LE(kept, most);
    EXPECT_GE(kept, most - kMiB);
    heap_.store()->CheckInvariants();
    heap_.DrainSpanCaches();
  }
}

TEST_F(SpanPoolTest, KeepsNothingWhereItMayNot) {
  const auto kept_of = [this](Span* span) {
    EXPECT_TRUE(Free(span));
    const size_t bytes = Pool().bytes();
    heap_.DrainSpanCaches();
    return bytes;
  };
  EXPECT_EQ(kept_of(Direct(kLongestPooled)), kLongestPooled * kPageSize);
  EXPECT_EQ(kept_of(Direct(kLongestPooled + 1)), 0u);
  heap_.governor()->SetReleasing(Releasing::kEager);
  EXPECT_EQ(kept_of(Direct(20)), 0u);
  heap_.governor()->SetReleasing(Releasing::kByPolicy);
  heap_.hints().shortage.Set(AddressSpaceShortage::kNow);
  EXPECT_EQ(kept_of(Direct(20)), 0u);
  heap_.hints().shortage.Set(AddressSpaceShortage::kEarlier);
  // A pool takes no chunk beyond the share, nor under a limit.
  heap_.hints().retention.SetTotal(kPoolChunk.bytes());
  New(10);
  EXPECT_EQ(Pool().bytes(), 0u);
  heap_.hints().retention.SetTotal(0);
  heap_.governor()->SetLimit(LimitKind::kHard, 64 * kMiB);
  New(10);
  EXPECT_EQ(Pool().bytes(), 0u);
}

TEST_F(SpanPoolTest, TakesChunksFromTheHeap) {
  // The pools leave each other's chunks alone, since these are a small part of the pages in use.
  Direct(2 * kLeftToOthersPart * kPoolChunk.pages());
  Span* const a = New(10);
  EXPECT_GT(Pool().bytes(), 0u);
  const size_t rest = Pool().bytes();
  EXPECT_LE(rest, (kPoolChunk - Length(10)).bytes());
  Span* const b = New(10);
  EXPECT_EQ(b->first_page, a->end());
  EXPECT_EQ(Pool().bytes(), rest - 10 * kPageSize);
  EXPECT_EQ(heap_.GetStats().large_spans, 3u);
  // Objects of another home do not lie between those of this home.
  Span* const other = New(10, 1);
  EXPECT_EQ(New(10)->first_page, b->end());
  EXPECT_NE(other->first_page, b->end());
}

TEST_F(SpanPoolTest, WhatWasNeverWrittenReadsAsZeroes) {
  Span* const a = New(10);
  Span* const b = New(10);
  EXPECT_TRUE(a->zeroed());
  EXPECT_TRUE(b->zeroed());
  EXPECT_TRUE(Free(a));
  EXPECT_FALSE(New(5)->zeroed());
  const PageId begin_of_b = b->first_page;
  EXPECT_TRUE(Free(b));
  // The span has the last part of the former `a`, the former `b`, and pages that no object used
  // before.
  Span* const joined = New(20);
  EXPECT_EQ(joined->first_page, begin_of_b - Length(5));
  EXPECT_EQ(joined->in_use.written, Length(15));
  EXPECT_TRUE(New(10)->zeroed());
}

TEST_F(SpanPoolTest, AnObjectGrowsIntoWhatFollowsIt) {
  Span* const a = New(10);
  Span* const b = New(10);
  const size_t kept = Pool().bytes();
  int sample = 0;
  b->sample = &sample;
  EXPECT_FALSE(Resize(a, 11)) << "the next page is in use";
  void* taken = nullptr;
  ASSERT_TRUE(Resize(b, 25, &taken));
  EXPECT_EQ(taken, &sample);
  EXPECT_EQ(b->sample, nullptr);
  EXPECT_EQ(b->num_pages, Length(25));
  EXPECT_EQ(Pool().bytes(), kept - 15 * kPageSize);
  heap_.store()->CheckInvariants();
  // Grows the object into the whole rest.
  const size_t rest = Pool().bytes() / kPageSize;
  ASSERT_TRUE(Resize(b, 25 + rest));
  EXPECT_EQ(Pool().bytes(), 0u);
  EXPECT_TRUE(b->zeroed());
  EXPECT_EQ(heap_.GetStats().large_spans, 2u);
  heap_.store()->CheckInvariants();
  EXPECT_TRUE(Free(b));
  EXPECT_FALSE(Resize(b, 30)) << "it is free";
  // Grows the object into pages that were written to.
  ASSERT_TRUE(Resize(a, 12));
  EXPECT_EQ(a->in_use.written, Length(12));
}

// A sampled small object counts apart from large ones, until it is freed. It keeps its pages.
TEST_F(SpanPoolTest, ASampledSmallObjectIsNotResized) {
  const SizeClass c = kSizeClasses.ClassOf(40000);
  for (const bool kept : {false, true}) {
    Span* const span = heap_.NewSampled(c);
    ASSERT_NE(span, nullptr);
    Span* const after = New(8);
    ASSERT_TRUE(Free(after));
    EXPECT_FALSE(Resize(span, span->num_pages.pages() + 1));
    EXPECT_FALSE(Resize(span, 1));
    EXPECT_EQ(heap_.MoveLargeAt(span, span->start_address(), Length(1000)), nullptr);
    EXPECT_EQ(span->object_bytes(), kSizeClasses.size(c));
    EXPECT_EQ(heap_.sampled().of_class(c), 1u);
    EXPECT_TRUE(heap_.DeleteLargeAt(span, span->start_address(), nullptr,
                                    kept ? &under_test_.homes[0] : nullptr));
    EXPECT_FALSE(heap_.DeleteLargeAt(span, span->start_address()));
    EXPECT_EQ(heap_.sampled().all(), 0u);
    EXPECT_EQ(heap_.GetStats().sampled_span_bytes, 0u);
  }
}

// A pool does not take the kept spans of others while these are few.
TEST_F(SpanPoolTest, LittleThatOthersKeepIsLeftToThem) {
  Span* const kept = Direct(20);
  Direct(20 * kLeftToOthersPart + 100);
  Direct(heap_.GetStats().free_released_bytes / kPageSize);
  EXPECT_TRUE(Free(kept, 1));
  const size_t growths = heap_.GetStats().growths;
  New(20, 0);
  EXPECT_EQ(Pool(1).bytes(), 20 * kPageSize);
  EXPECT_EQ(heap_.GetStats().growths, growths + 1);
}

// Merging spans frees records, cutting spans takes them. After many rounds of both, the pool has
// records when it needs them, and does not hoard those of the page heap.
TEST_F(SpanPoolTest, RecordsAreExchangedWithThePageHeap) {
  constexpr size_t kObjects = 6 * kPoolRecords;
  size_t warm_bytes = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Span*> spans;
    for (size_t i = 0; i < kObjects; ++i) spans.push_back(New(2, round % 2));
    for (Span* const span : spans) EXPECT_TRUE(Free(span, round % 2));
    if (round == 20) warm_bytes = under_test_.arena.mapped_bytes();
  }
  heap_.store()->CheckInvariants();
  EXPECT_EQ(under_test_.arena.mapped_bytes(), warm_bytes);
}

// The page before the heap's first one was unmapped. Its entry names a record that is now in use
// for a span far away, which the pool keeps.
TEST_F(SpanPoolTest, AnOldEntryOfThePageMapIsNoNeighbour) {
  Span* const first = Direct(20);
  Direct(1);
  Span* const kept = Direct(30);
  Direct(1);
  EXPECT_TRUE(Free(kept));
  under_test_.page_map->SetSpan(first->first_page - Length(1), kept);
  const PageId start = first->first_page;
  EXPECT_TRUE(Free(first));
  heap_.store()->CheckInvariants();
  EXPECT_EQ(New(20)->first_page, start);
  EXPECT_EQ(New(30), kept);
}

}  // namespace
}  // namespace tcmalloc
