// SPDX-License-Identifier: BSD-3-Clause
// Tests the page heap with hugepages: when it requests them, where it places spans, what it
// releases, and that released pages are not backed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "page_heap/governor.h"
#include "page_heap/page_heap.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/kept_spans.h"
#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

using Call = FakeVirtualMemory::Call;
using Kind = FakeVirtualMemory::Kind;

constexpr size_t kHugePages = kHugepagePages.pages();

FakeVirtualMemory::Options EightGiB(bool gaps) {
  FakeVirtualMemory::Options options = FakeVirtualMemory::AddressOnly(uint64_t{8} << 30);
  options.gaps = gaps;
  return options;
}

struct HugeHeap {
  explicit HugeHeap(Length threshold, HugepageSetting setting = {HugepageMode::kAdvise},
                    bool gaps = false)
      : under_test(EightGiB(gaps),
                   {.hugepage_threshold = threshold, .now_ms = [] { return clock_ms; }}) {
    clock_ms = 0;
    heap.governor()->SetReleaseRate(0);
    heap.governor()->SetHugepages(setting);
    vm.RecordCalls();
    // Acts as if a trial had shown that the program touches its objects.
    touched.NoteTrial(PageId(1));
    touched.NeedOf(kManySpans, Length(1), [](PageRange range) { return range.bytes(); });
  }

  // Allocates a span and writes to all of it.
  Span* New(size_t pages, SpanState use = SpanState::kLarge) {
    return Written(heap.New(Length(pages), use));
  }
  // Like New, for a span of small objects that will be touched completely.
  Span* NewNeeded(size_t pages) {
    return Written(heap.NewNear(Length(pages), under_test.homes[0], kManySpans, &touched));
  }
  Span* Written(Span* span) {
    EXPECT_NE(span, nullptr);
    if (span != nullptr) vm.Touch(span->start_address(), span->bytes());
    return span;
  }
  size_t Count(Kind kind) {
    const std::vector<Call> taken = vm.TakeCalls();
    calls.insert(calls.end(), taken.begin(), taken.end());
    return static_cast<size_t>(std::count_if(calls.begin(), calls.end(),
                                             [kind](const Call& c) { return c.kind == kind; }));
  }
  size_t FreeMappedPages() { return heap.GetStats().free_backed_bytes / kPageSize; }

  void CheckResidency() { CheckReleasedPagesAreNotBacked(under_test); }

  static constexpr size_t kManySpans = 9;
  TouchHistory touched;
  static inline int64_t clock_ms = 0;
  PageHeapUnderTest under_test;
  PageHeap& heap = under_test.heap;
  FakeVirtualMemory& vm = under_test.vm;
  std::vector<Call> calls;
};

TEST(PageHeapHugepagesTest, TheFirstMegabytesAreWithout) {
  constexpr Length kThreshold(4 * kHugePages);
  HugeHeap h(kThreshold);
  size_t pages = 0;
  for (; pages < kThreshold.pages(); pages += 16) h.New(16);
  EXPECT_EQ(h.Count(Kind::kHugepages), 0u);
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, 0u);
  while (h.heap.GetStats().hugepage_bytes == 0) {
    h.New(16);
    pages += 16;
    ASSERT_LT(pages, 2 * kThreshold.pages());
  }
  EXPECT_EQ(h.Count(Kind::kHugepages), 1u);
  EXPECT_EQ(h.Count(Kind::kNoHugepages), 0u);
  for (const Call& call : h.calls) {
    if (call.kind != Kind::kHugepages) continue;
    EXPECT_EQ(call.start % kHugepageSize, 0u);
    EXPECT_EQ(call.bytes % kHugepageSize, 0u);
  }
  h.CheckResidency();
}

TEST(PageHeapHugepagesTest, TheFirstMegabytesOptOutWhereTheOsMakesThemUnasked) {
  HugeHeap h(Length(1024), {HugepageMode::kAlways});
  h.New(100);
  EXPECT_EQ(h.Count(Kind::kNoHugepages), 1u);
  h.New(300);
  h.New(300);
  EXPECT_EQ(h.Count(Kind::kNoHugepages), 2u) << "the 300 when 100 were in use";
  EXPECT_EQ(h.Count(Kind::kHugepages), 1u);
}

// Otherwise each large span would begin in a hugepage of its own.
TEST(PageHeapHugepagesTest, LargeSpansBeginInTheRestOfThePreviousHugepage) {
  HugeHeap h(Length(0));
  size_t pages = 0;
  for (size_t n = kHugePages + 1; n < kHugePages + 20; ++n) {
    Span* const span = h.New(n);
    ASSERT_EQ(span->num_pages, Length(n));
    ASSERT_LT(span->in_use.written, Length(kHugePages));
    pages += n;
    h.CheckResidency();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_LE(h.vm.resident_bytes(), pages * kPageSize + 3 * kHugepageSize);
}

TEST(PageHeapHugepagesTest, ShardsCutWholeHugepagesOnlyIfNothingElseFits) {
  HugeHeap h(Length(0));
  Span* const whole = h.New(2 * kHugePages);
  h.New(1);
  Span* const hole = h.New(10);
  h.New(kHugePages - 11);
  h.heap.Delete(whole);
  const PageId hole_page = hole->first_page;
  h.heap.Delete(hole);
  EXPECT_EQ(h.heap.NewNear(Length(8), h.under_test.homes[0])->first_page, hole_page);
  EXPECT_EQ(h.heap.NewNear(Length(4), h.under_test.homes[1])->first_page,
            PageId(h.vm.base() >> kPageShift));
}

TEST(PageHeapHugepagesTest, WholeHugepagesAreReleasedFirstAndTheirNeighboursStay) {
  HugeHeap h(Length(0));
  h.New(100);
  Span* const span = h.New(kHugePages * 3);
  h.New(10);
  h.heap.Delete(span);
  EXPECT_EQ(h.heap.ReleaseAtLeast(Length(1)), kHugepagePages) << "a part would split it";
  EXPECT_EQ(h.heap.ReleaseAtLeast(kHugepagePages), kHugepagePages);
  h.CheckResidency();
  const PageStats stats = h.heap.GetStats();
  EXPECT_EQ(stats.hugepages_split, 0u);
  // The rest of three hugepages without the 100 and the 10 pages in use is free, and the pages
  // after them.
  EXPECT_EQ(h.FreeMappedPages(), 4 * kHugePages - 110 - 2 * kHugePages);
  EXPECT_GT(h.heap.ReleaseAtLeast(kAllPages), Length(0));
  EXPECT_EQ(h.FreeMappedPages(), 0u);
  EXPECT_GT(h.heap.GetStats().hugepages_split, 0u);
  h.CheckResidency();
}

TEST(PageHeapHugepagesTest, AFewFreePagesStayInHugepagesThatAreInUse) {
  for (const size_t in_use_pages : {size_t{200}, size_t{40}}) {
    HugeHeap h(Length(0));
    h.heap.governor()->SetReleaseRate(1);
    std::vector<Span*> spans;
    // Each hugepage keeps some pages in use; less than a sixty-fourth of it is free between them.
    for (int i = 0; i < 20; ++i) {
      h.New(in_use_pages / 2);
      spans.push_back(h.New(kHugePages - in_use_pages));
      h.New(in_use_pages / 2);
    }
    for (size_t i = 0; i < spans.size(); i += in_use_pages > 100 ? 4 : 1) h.heap.Delete(spans[i]);
    for (HugeHeap::clock_ms = 1; HugeHeap::clock_ms < 60'000; HugeHeap::clock_ms += 100) {
      h.heap.ReleaseDue(kAllPages);
    }
    // In one case 280 pages are free and 4,840 in use, in the other 4,320 are free and 800 in use.
    EXPECT_EQ(h.heap.GetStats().hugepages_split > 0, in_use_pages < 100) << in_use_pages;
    h.CheckResidency();
  }
}

TEST(PageHeapHugepagesTest, SplitHugepagesStaySplitUntilTheHeapGrows) {
  HugeHeap h(Length(0));
  h.New(100);
  Span* const hole = h.New(100);
  h.New(56);
  h.heap.Delete(hole);
  EXPECT_EQ(h.heap.ReleaseAtLeast(Length(10)), Length(10));
  EXPECT_EQ(h.Count(Kind::kNoHugepages), 1u);
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, 0u);
  h.CheckResidency();
  // When a page of the split hugepage is used again, only that page is backed.
  const size_t resident = h.vm.resident_bytes();
  h.New(90);
  EXPECT_EQ(h.vm.resident_bytes(), resident);
  h.New(5);
  EXPECT_EQ(h.vm.resident_bytes(), resident + 5 * kPageSize);
  h.CheckResidency();
  h.New(kHugePages);
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, kHugepageSize) << "five pages are still released";
  h.New(5);
  h.New(kHugePages);
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, h.heap.GetStats().system_bytes);
  EXPECT_EQ(h.Count(Kind::kHugepages), 4u);
  h.CheckResidency();
}

TEST(PageHeapHugepagesTest, OnlySplitHugepagesStopBeingOnes) {
  HugeHeap h(Length(0));
  std::vector<Span*> spans;
  for (int i = 0; i < 20; ++i) spans.push_back(h.New(kHugePages));
  // The end of every fourth one stays in use.
  for (size_t i = 0; i < spans.size(); ++i) {
    if (i % 4 == 0) {
      EXPECT_TRUE(h.heap.ResizeLargeAt(spans[i], spans[i]->start_address(), Length(10)));
    } else {
      h.heap.Delete(spans[i]);
    }
  }
  h.heap.ReleaseAtLeast(kAllPages);
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, 15 * kHugepageSize);
  // They are asked for again before another one is split: all of them are in use, or released.
  Span* other = nullptr;
  for (size_t i = 0; i < spans.size(); i += 4) other = h.New(4 * kHugePages - 10);
  ASSERT_EQ(h.heap.GetStats().system_bytes, spans.size() * kHugepageSize) << "it did not grow";
  EXPECT_TRUE(h.heap.ResizeLargeAt(other, other->start_address(), Length(kHugePages)));
  h.heap.ReleaseAtLeast(kAllPages);
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, 19 * kHugepageSize);
  h.CheckResidency();
}

// Splits hugepages as HoleRelease does. The page heap does not count free pages inside used spans
// as released.
TEST(PageHeapHugepagesTest, HugepagesWithReleasedPagesInUsedSpansStaySplit) {
  HugeHeap h(Length(0));
  Span* const span = h.New(16, SpanState::kSmall);
  Span* const rest = h.New(kHugePages - 16);
  h.heap.address_space().StopHugepagesAt(span->first_page, true);
  EXPECT_TRUE(h.vm.Release(span->start_address(), kPageSize));
  h.New(kHugePages);
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, kHugepageSize);
  // When the whole hugepage is free, it is like any other hugepage.
  h.heap.Delete(span);
  h.heap.Delete(rest);
  h.New(3 * kHugePages);
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, h.heap.GetStats().system_bytes);
}

// Another thread makes the heap grow while the OS is releasing the memory.
TEST(PageHeapHugepagesTest, SplitHugepagesAreNotMadeAgain) {
  HugeHeap h(Length(0));
  Span* const untouched = h.heap.New(Length(100), SpanState::kLarge);
  h.vm.OnNextRelease([&h] { h.New(kHugePages); });
  h.heap.ReleaseAtLeast(Length(10));
  h.vm.Touch(untouched->start_address(), 1);
  h.CheckResidency();
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, kHugepageSize);
}

TEST(PageHeapHugepagesTest, SpansNeededWholeArePrefaulted) {
  // The heap is far from using hugepages.
  HugeHeap h(kAllPages);
  h.New(8192, SpanState::kLarge);
  EXPECT_EQ(h.Count(Kind::kPopulate), 0u) << "a large object may never be touched";
  for (int i = 0; i < 100; ++i) h.New(2, SpanState::kSmall);
  EXPECT_EQ(h.Count(Kind::kPopulate), 0u) << "nor may small ones";
  for (int i = 0; i < 10; ++i) h.NewNeeded(1);
  EXPECT_EQ(h.Count(Kind::kPopulate), 0u) << "too short";
  for (int i = 0; i < 10; ++i) h.NewNeeded(5);
  EXPECT_EQ(h.Count(Kind::kPopulate), 10u);
  EXPECT_EQ(h.heap.GetStats().prefaults, 10u);
  EXPECT_EQ(h.FreeMappedPages(), 0u) << "nothing but the spans";
  h.CheckResidency();
  h.heap.Delete(h.NewNeeded(5));
  h.NewNeeded(5);
  EXPECT_EQ(h.Count(Kind::kPopulate), 11u) << "backed already";
  SetLimit(h.heap, LimitKind::kSoft, size_t{1} << 30);
  h.NewNeeded(5);
  EXPECT_EQ(h.Count(Kind::kPopulate), 11u) << "there is a limit";
}

TEST(PageHeapHugepagesTest, AnOsThatCannotPrefaultIsNotAskedAgain) {
  HugeHeap h(kAllPages);
  h.New(8192, SpanState::kLarge);
  h.vm.FailPopulate(1, FakeVirtualMemory::kForever);
  for (size_t i = 0; i < 100; ++i) h.NewNeeded(8);
  EXPECT_EQ(h.Count(Kind::kPopulate), 1u);
}

// Does random operations with a fake OS that backs the pages that are written to. It backs a whole
// hugepage where one was requested and no page of it was backed.
class PageHeapHugepagesFuzzTest : public testing::TestWithParam<uint64_t> {};

TEST_P(PageHeapHugepagesFuzzTest, ReleasedPagesAreNotBacked) {
  SeededRandom random(GetParam());
  HugeHeap h(Length(random.OneIn(2) ? 0 : 700), {HugepageMode::kAdvise}, random.OneIn(2));
  std::vector<Span*> live;
  size_t rested = 0;
  for (int step = 0; step < 9000; ++step) {
    const uint64_t what = random.Below(100);
    const bool growing = step / 300 % 2 == 0;
    if (what < (growing ? 60 : 30)) {
      const bool large = random.OneIn(3);
      const bool long_one = random.OneIn(large ? 3 : 100);
      const size_t n = long_one ? random.Between(200, 1200) : random.Between(1, 40);
      Span* span;
      if (large) {
        const Length alignment(random.OneIn(4) ? size_t{1} << random.Below(10) : 1);
        span = h.heap.New(Length(n), SpanState::kLarge, alignment);
        if (span != nullptr && !span->zeroed() && span->in_use.written < span->num_pages) ++rested;
      } else {
        span = h.heap.NewNear(Length(n), h.under_test.homes[random.Below(3)], h.kManySpans,
                              random.OneIn(2) ? &h.touched : nullptr);
      }
      if (span == nullptr) continue;
      const size_t touched = random.OneIn(3) ? random.Between(1, span->bytes()) : span->bytes();
      h.vm.Touch(span->start_address(), touched);
      live.push_back(span);
    } else if (what < 90) {
      if (live.empty()) continue;
      // A write to an object in use must not back released pages of its hugepage.
      Span* const written = live[random.Below(live.size())];
      h.vm.Touch(written->start_address(), random.Between(1, written->bytes()));
      const size_t i = random.Below(live.size());
      Span* const span = live[i];
      if (random.OneIn(6) && span->state.load() == SpanState::kLarge) {
        const size_t n = random.Between(1, span->num_pages.pages() * 2);
        if (h.heap.ResizeLargeAt(span, span->start_address(), Length(n))) {
          h.vm.Touch(span->start_address(), span->bytes());
        }
        continue;
      }
      live[i] = live.back();
      live.pop_back();
      if (span->state.load() == SpanState::kSmall && random.OneIn(2)) {
        DeleteToCache(h.heap, span, h.under_test.homes[random.Below(3)], random.OneIn(2));
      } else {
        h.heap.Delete(span);
      }
    } else if (what < 95) {
      const size_t n = random.OneIn(4) ? random.Between(1, 4000) : random.Between(1, 100);
      h.heap.ReleaseAtLeast(Length(n));
    } else if (what < 98) {
      HugeHeap::clock_ms += static_cast<int64_t>(random.Below(3000));
      h.heap.governor()->SetReleaseRate(static_cast<double>(random.Below(3)));
      h.heap.ReleaseDue(Length(random.Between(1, 4000)));
    } else {
      h.vm.FailRelease(random.Between(1, 3));
      h.vm.FailMap(random.Between(1, 3), random.Between(1, 3));
    }
    if (step % 20 == 0) h.CheckResidency();
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "step " << step;
      return;
    }
  }
  h.vm.StopFailing();
  for (Span* const span : live) h.heap.Delete(span);
  h.heap.ReleaseAtLeast(kAllPages);
  h.CheckResidency();
  EXPECT_EQ(h.FreeMappedPages(), 0u);
  EXPECT_GT(rested, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PageHeapHugepagesFuzzTest, testing::Range<uint64_t>(1, 13));

}  // namespace
}  // namespace tcmalloc
