// SPDX-License-Identifier: BSD-3-Clause
// Tests how PageHeap releases long free spans, one part at a time.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "page_heap/page_heap_fixture.h"
#include "page_heap/release_policy.h"

namespace tcmalloc {
namespace {

constexpr Length kSlice = kReleaseSlice;
constexpr size_t kPart = kReleasePart;
constexpr Length kEverything = SpanStore::kMaxLength;
// A part of this length is ten slices.
constexpr Length kLong(kSlice.pages() * kPart * 10);

using Call = FakeVirtualMemory::Call;

class LongSpanTest : public PageHeapFixture {
 protected:
  LongSpanTest() {
    Span* const span = New(kLong.pages());
    first_ = span->first_page;
    // Keeps the last pages of the heap in use, so that the long span stays a free span of its own.
    New(1);
    heap_.Delete(span);
    vm_.RecordCalls();
  }

  // The length of the span that is being released.
  Length InFlight() {
    Length length;
    ForEachSpan(heap_, [&](const SpanView& span) {
      if (span.state == SpanState::kReleasing) length = span.num_pages;
    });
    return length;
  }
  static size_t Bytes(const std::vector<Call>& calls) {
    size_t bytes = 0;
    for (const Call& call : calls) {
      EXPECT_LE(call.bytes, kSlice.bytes());
      if (call.ok) bytes += call.bytes;
    }
    return bytes;
  }

  PageId first_;
};

// Each slice needs a system call, but the span is cut only once for each part.
TEST_F(LongSpanTest, EachSystemCallIsASliceAndMostOfTheSpanStaysFree) {
  Length in_flight;
  vm_.OnNextRelease([&] { in_flight = InFlight(); });
  EXPECT_EQ(heap_.ReleaseAtLeast(Length(kLong.pages() / kPart)).pages(), kLong.pages() / kPart);
  EXPECT_EQ(in_flight.pages(), kLong.pages() / kPart);
  const std::vector<Call> calls = vm_.TakeCalls();
  EXPECT_EQ(calls.size(), 10u);
  EXPECT_EQ(Bytes(calls), kLong.bytes() / kPart);
  EXPECT_EQ(heap_.GetStats().releases, 10u);
  heap_.store()->CheckInvariants();
  heap_.ReleaseAtLeast(kEverything);
  EXPECT_EQ(heap_.GetStats().free_backed_bytes, 0u);
  EXPECT_EQ(heap_.GetStats().released_total_bytes, kLong.bytes());
}

// A release takes no more pages out of the free spans than were asked for, rounded up to whole
// pages.
TEST_F(LongSpanTest, APartIsNoLongerThanTheRequest) {
  EXPECT_EQ(heap_.ReleaseAtLeast(Length(3)), Length(3));
  EXPECT_EQ(heap_.ReleaseAtLeast(kSlice + Length(1)), kSlice + Length(1));
  EXPECT_EQ(vm_.TakeCalls().size(), 3u);
}

// A page that is locked in memory keeps its slice from being released, but not the rest of its
// part.
TEST_F(LongSpanTest, ARefusedSliceIsTheOnlyOneThatStays) {
  const PageId locked = first_ + Length(kSlice.pages() * 7 + 5);
  vm_.LockInMemory(locked.start_address(), kPageSize);
  heap_.ReleaseAtLeast(kEverything);
  const PageStats stats = heap_.GetStats();
  EXPECT_GT(stats.free_backed_bytes, 0u);
  EXPECT_LE(stats.free_backed_bytes, kSlice.bytes());
  EXPECT_EQ(stats.free_backed_bytes + stats.released_total_bytes, kLong.bytes());
}

TEST_F(LongSpanTest, AllIsRefused) {
  vm_.FailRelease(1, FakeVirtualMemory::kForever);
  EXPECT_EQ(heap_.ReleaseAtLeast(kEverything), Length(0));
  EXPECT_EQ(heap_.GetStats().free_backed_bytes, kLong.bytes());
  heap_.store()->CheckInvariants();
  // The OS refused the first slice as the beginning of a part, then each slice on its own.
  EXPECT_EQ(vm_.release_failures(), kLong.pages() / kSlice.pages() + 1);
}

// At a limit, threads wait for pages that are being released, so only a slice is released at a
// time.
TEST_F(LongSpanTest, UnderALimitASliceAtOnce) {
  SetLimit(heap_, LimitKind::kHard, kLong.bytes() * 2);
  Length in_flight;
  vm_.OnNextRelease([&] { in_flight = InFlight(); });
  heap_.ReleaseAtLeast(kEverything);
  EXPECT_EQ(in_flight, kSlice);
  EXPECT_EQ(heap_.GetStats().free_backed_bytes, 0u);
}

}  // namespace
}  // namespace tcmalloc
