// SPDX-License-Identifier: BSD-3-Clause
// Tests that PageHeap places the spans of one shard together, and which kept spans of other shards
// a shard may use.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "page_heap/page_heap.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/kept_spans.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kSeed = 20261121;
constexpr size_t kRunPages = (size_t{256} << 10) / kPageSize;
constexpr size_t kPagesInFirstGrowth = (size_t{1} << 20) / kPageSize;

class PageHeapNearTest : public PageHeapFixture {
 protected:
  Span* NewNear(size_t pages, size_t shard) {
    Span* const span = heap_.NewNear(Length(pages), under_test_.homes[shard]);
    EXPECT_NE(span, nullptr);
    if (span != nullptr) {
      for (size_t i = 0; i < pages; ++i) owner_[span->first_page.index() + i] = shard;
    }
    return span;
  }

  // The lengths of the ranges of pages that belong to one shard. Each range ends where a page of
  // another shard begins.
  std::vector<size_t> Stretches() const {
    std::vector<size_t> lengths;
    const size_t kNobody = SIZE_MAX;
    size_t last = kNobody;
    for (const auto& [page, shard] : owner_) {
      if (shard != last) lengths.push_back(0);
      ++lengths.back();
      last = shard;
    }
    return lengths;
  }

  std::map<size_t, size_t> owner_;
};

// For any number of shards and any lengths, a range is on average as long as a near run, except at
// the ends of mappings.
TEST_F(PageHeapNearTest, ShardsThatTakeTurnsHaveRunsOfTheirOwn) {
  SeededRandom random(kSeed);
  for (size_t i = 0; i < 4000; ++i) {
    const size_t pages = random.Between(1, 4);
    NewNear(pages, random.Between(0, 4));
  }
  const std::vector<size_t> stretches = Stretches();
  EXPECT_LT(stretches.size() * kRunPages, 2 * owner_.size()) << stretches.size();
}

// Backed memory is used before fresh memory, even if it is not in the shard's near run.
TEST_F(PageHeapNearTest, BackedMemoryComesFirst) {
  std::vector<Span*> spans;
  for (size_t i = 0; i < 6; ++i) spans.push_back(NewNear(4, 0));
  heap_.Delete(spans[2]);
  EXPECT_EQ(NewNear(3, 1)->first_page, spans[2]->first_page);
  EXPECT_EQ(NewNear(1, 1)->first_page, spans[2]->first_page + Length(3));
}

// If the tightest fit belongs to the near run of another shard, other fits are still found. Each
// shard continues where it was.
TEST_F(PageHeapNearTest, LooserFitsAreFoundBesideAnotherShardsRun) {
  std::vector<Span*> spans;
  for (const size_t pages : {1, 3, 1, 5, 1, 7, 1}) spans.push_back(NewNear(pages, 2));
  for (const size_t i : {1u, 3u, 5u}) heap_.Delete(spans[i]);
  EXPECT_EQ(NewNear(1, 0)->first_page, spans[1]->first_page);
  EXPECT_EQ(NewNear(1, 1)->first_page, spans[3]->first_page);
  EXPECT_EQ(NewNear(1, 3)->first_page, spans[5]->first_page);
  EXPECT_EQ(NewNear(2, 0)->first_page, spans[1]->first_page + Length(1));
  EXPECT_EQ(NewNear(2, 1)->first_page, spans[3]->first_page + Length(1));
}

// The shard's own kept spans, of any lengths, are used before fresh memory.
TEST_F(PageHeapNearTest, AShardsOwnKeptSpansComeBeforeFreshMemory) {
  Span* const span = NewNear(8, 3);
  NewNear(1, 3);
  Keep(span, 3);
  EXPECT_EQ(NewNear(6, 3)->first_page, span->first_page);
  EXPECT_EQ(NewFromCache(heap_, Length(8), under_test_.homes[3]), nullptr);
}

// After that, kept spans of other shards are drained, several at once, so that there is room for a
// near run.
TEST_F(PageHeapNearTest, KeptSpansOfOtherShardsComeNextSeveralAtOnce) {
  std::vector<Span*> spans;
  for (size_t i = 0; i < 12; ++i) spans.push_back(NewNear(8, 3));
  NewNear(1, 3);
  for (size_t i = 0; i < 12; i += 2) Keep(spans[i], 3);
  for (size_t i = 1; i < 12; i += 2) Keep(spans[i], 3);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(NewNear(8, 4)->first_page, spans[0]->first_page + Length(8 * i));
  }
  EXPECT_TRUE(NewNear(8, 4)->zeroed());
  EXPECT_EQ(NewFromCache(heap_, Length(8), under_test_.homes[3]), nullptr);
}

// A request for backed memory gets free and kept spans. If the heap would have to use unbacked
// memory, the request fails and changes nothing.
TEST_F(PageHeapNearTest, BackedMemoryOnly) {
  const auto new_backed = [this](size_t pages, size_t shard) {
    return heap_.NewNear(Length(pages), under_test_.homes[shard], 0, nullptr, Memory::kBacked);
  };
  EXPECT_EQ(new_backed(8, 3), nullptr);
  EXPECT_EQ(heap_.GetStats().system_bytes, 0u);
  Span* const freed = NewNear(8, 3);
  Span* const kept = NewNear(8, 3);
  NewNear(1, 3);
  ASSERT_GT(heap_.GetStats().free_released_bytes, 8 * kPageSize);
  EXPECT_EQ(new_backed(8, 4), nullptr);
  heap_.Delete(freed);
  Keep(kept, 3);
  const PageId first = freed->first_page;
  // The only kept span is drained, and then the free spans are searched again.
  EXPECT_EQ(new_backed(16, 4)->first_page, first);
  EXPECT_EQ(new_backed(1, 4), nullptr);
}

// When the OS refuses, any free memory serves: first near runs of other shards, then their kept
// spans.
TEST_F(PageHeapNearTest, KeptSpansOfOtherShardsServeWhenTheOsRefuses) {
  std::vector<Span*> spans = {NewNear(8, 0)};
  vm_.FailMap(1, FakeVirtualMemory::kForever);
  while (spans.size() < kPagesInFirstGrowth / 8) spans.push_back(NewNear(8, spans.size() % 2));
  ASSERT_EQ(heap_.GetStats().free_released_bytes, 0u);
  Keep(spans[0], 0);
  EXPECT_EQ(NewNear(8, 1)->first_page, spans[0]->first_page);
  EXPECT_EQ(heap_.NewNear(Length(8), under_test_.homes[1]), nullptr);
}

}  // namespace
}  // namespace tcmalloc
