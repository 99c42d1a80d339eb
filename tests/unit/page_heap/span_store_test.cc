// SPDX-License-Identifier: BSD-3-Clause
// PageHeapFuzzTest compares SpanStore, as a part of a page heap, with a model.
#include "page_heap/span_store.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "page_heap/governor.h"
#include "page_heap/page_map.h"
#include "page_heap/span.h"
#include "page_heap/span_home.h"
#include "testing/fake_virtual_memory.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

TEST(SpacePolicyTest, WhatIsSpareIsNotSaved) {
  EXPECT_FALSE(SavesSpace(MiB(0), MiB(0), kMaxGrowth));
  EXPECT_FALSE(SavesSpace(MiB(64), MiB(0), kMaxGrowth));
  EXPECT_TRUE(SavesSpace(MiB(64) + Length(1), MiB(0), kMaxGrowth));
}

TEST(SpacePolicyTest, NorIsASixteenthOfWhatWasNeeded) {
  EXPECT_FALSE(SavesSpace(MiB(160 + 10 + 64), MiB(160), kMaxGrowth));
  EXPECT_TRUE(SavesSpace(MiB(160 + 10 + 64) + Length(1), MiB(160), kMaxGrowth));
  EXPECT_FALSE(SavesSpace(MiB(102400), MiB(100000), kMaxGrowth));
  EXPECT_TRUE(SavesSpace(MiB(106400), MiB(100000), kMaxGrowth));
}

constexpr Length KiB(size_t n) { return Length((n << 10) >> kPageShift); }

TEST(NearRunTest, SmallHeapsHaveShortRuns) {
  EXPECT_EQ(NearRun(Length(0), 0), KiB(1024));  // no shards and no run begun
  EXPECT_EQ(NearRun(Length(0), 1), KiB(256));
  EXPECT_EQ(NearRun(MiB(7), 1), KiB(256));
  EXPECT_EQ(NearRun(MiB(8), 1), KiB(512));
  EXPECT_EQ(NearRun(MiB(15), 1), KiB(512));
  EXPECT_EQ(NearRun(MiB(16), 1), KiB(1024));
  EXPECT_EQ(NearRun(MiB(2048), 1), KiB(1024));
}

// In heaps of all sizes, runs are not too short for the cache, and their sum is bounded.
TEST(NearRunTest, Bounds) {
  for (size_t shards = 1; shards <= 64; ++shards) {
    for (size_t mib = 1; mib < 4096; mib += 7) {
      const Length run = NearRun(MiB(mib), shards);
      EXPECT_GE(run, KiB(256));
      EXPECT_LE(run, KiB(1024));
      if (run > KiB(256)) {
        EXPECT_LE(run.pages() * shards * 16, MiB(mib).pages());
      }
    }
  }
}

}  // namespace

namespace {

class SpanStoreTest : public testing::Test {
 protected:
  static constexpr size_t kPages = 2048;

  SpanStoreTest() {
    EXPECT_TRUE(page_map_->EnsureLeaves(Page(0) - Length(1), Length(kPages + 2), metadata_vm_));
    for (Span& record : records_) store_.ReturnRecord(&record);
  }

  PageId Page(size_t n) const { return PageId((vm_.base() >> kPageShift) + n); }
  PageRange Range(size_t first, size_t n) const { return {Page(first), Page(first + n)}; }

  FakeVirtualMemory vm_{FakeVirtualMemory::AddressOnly(kPages * kPageSize)};
  FakeVirtualMemory metadata_vm_;
  const std::unique_ptr<PageMap> page_map_ = std::make_unique<PageMap>();
  SpanHomes homes_;
  std::vector<Span> records_{100};
  // The last argument is so large that no large object is placed to save address space.
  SpanStore store_{*page_map_, homes_, Length(1), Length((SIZE_MAX >> 1) >> kPageShift)};
};

// Large objects take the tightest free memory if address space is to be saved, else backed memory.
TEST_F(SpanStoreTest, TheTightestPlaceIsTakenWhereMuchIsToSpare) {
  store_.AddPages(Range(0, 100), SpanState::kFreeBacked, true);
  store_.AddPages(Range(200, 10), SpanState::kFreeReleased, true);
  SpanStore saving(*page_map_, homes_, Length(1), Length(0));
  std::vector<Span> records(20);
  for (Span& record : records) saving.ReturnRecord(&record);
  saving.AddPages(Range(1000, 100), SpanState::kFreeBacked, true);
  saving.AddPages(Range(1200, 10), SpanState::kFreeReleased, true);
  const SpanStore::Request request = {.length = Length(8), .use = SpanState::kLarge};
  EXPECT_EQ(store_.FindPlace(request, false).span->first_page, Page(0));
  const SpanStore::Place place = saving.FindPlace(request, false);
  EXPECT_EQ(place.span->first_page, Page(1200));
  EXPECT_TRUE(place.by_choice);
  EXPECT_EQ(saving.FindBackedPlace(request).span->first_page, Page(1000));
  // Small objects do not take the tightest memory.
  EXPECT_EQ(
      saving.FindPlace({.length = Length(8), .use = SpanState::kSmall}, false).span->first_page,
      Page(1000));
}

TEST_F(SpanStoreTest, AMovedObjectLeavesReleasedPagesBetweenItsEnds) {
  store_.AddPages(Range(0, 100), SpanState::kFreeBacked, true);
  const SpanStore::Request request = {.length = Length(60), .use = SpanState::kLarge};
  SpanStore::Taken taken;
  store_.Take(request, store_.FindPlace(request, false), &taken);
  store_.DeleteMoved(taken.span, Length(10), Length(30));
  EXPECT_EQ(store_.free(SpanStore::kReleased), Length(30));
  EXPECT_EQ(store_.free(SpanStore::kBacked), Length(70));
  EXPECT_EQ(page_map_->SpanOf(Page(10))->num_pages, Length(30));
  store_.CheckInvariants();
}

TEST_F(SpanStoreTest, MetadataTakesAWholeSpanWhereRecordsAreShort) {
  store_.AddPages(Range(0, 100), SpanState::kFreeBacked, true);
  store_.AddPages(Range(200, 50), SpanState::kFreeBacked, false);
  // The span of 50 pages is not the process's own memory.
  EXPECT_EQ(store_.TakeForMetadata(Length(40), true), nullptr);
  EXPECT_EQ(store_.TakeForMetadata(Length(60), true)->num_pages, Length(60));
  std::vector<Span> records(2);
  SpanStore poor(*page_map_, homes_, Length(1), Length(0));
  for (Span& record : records) poor.ReturnRecord(&record);
  poor.AddPages(Range(1000, 100), SpanState::kFreeReleased, true);
  EXPECT_EQ(poor.TakeForMetadata(Length(60), false)->num_pages, Length(100));
  EXPECT_EQ(poor.TakeForMetadata(Length(1), false), nullptr);
  store_.CheckInvariants();
  poor.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
