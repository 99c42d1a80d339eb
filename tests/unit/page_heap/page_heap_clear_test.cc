// SPDX-License-Identifier: BSD-3-Clause
// Tests AddressSpace::Clear, and P8 of page_heap/span_store.h: memory that counts as zero is zero.
// The memory is real, and is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "page_heap/address_space.h"
#include "page_heap/page_heap.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

using Call = FakeVirtualMemory::Call;
using Kind = FakeVirtualMemory::Kind;

FakeVirtualMemory::Options RealMemory(size_t hardware_page = kHardwarePage,
                                      size_t range_bytes = 256 * kMiB) {
  FakeVirtualMemory::Options options;
  options.range_bytes = range_bytes;
  options.hardware_page_size = hardware_page;
  return options;
}

// A large object that was used before, and what the OS says about its memory.
class PageHeapClearTest : public PageHeapFixture {
 protected:
  PageHeapClearTest() : PageHeapFixture(RealMemory(), {.hugepage_threshold = Length(1)}) {}

  // An object of `bytes` bytes in memory that is full of 'x'. `offset` is the offset of its
  // beginning in a hugepage.
  Span* NewUsed(size_t bytes, size_t offset = 0) {
    const Length n = Length::ForBytes(bytes);
    if (offset > 0) {
      heap_.Delete(heap_.New(n + MiB(4), SpanState::kLarge, kHugepagePages));
      heap_.New(Length::ForBytes(offset), SpanState::kLarge, kHugepagePages);
    }
    Span* span = heap_.New(n, SpanState::kLarge, offset > 0 ? Length(1) : kHugepagePages);
    memset(span->start_address(), 'x', span->bytes());
    const PageId first = span->first_page;
    heap_.Delete(span);
    span = heap_.New(n, SpanState::kLarge, offset > 0 ? Length(1) : kHugepagePages);
    EXPECT_EQ(span->first_page, first);
    EXPECT_EQ(span->in_use.written, n);
    start_ = static_cast<char*>(span->start_address());
    vm_.RecordCalls();
    return span;
  }
  // These hardware pages are the backed ones, by their numbers in the object.
  template <typename F>
  void SetBacked(F is_backed) {
    vm_.AnswerBacked([this, is_backed](uintptr_t start, size_t bytes) {
      size_t backed = 0;
      const size_t first = (start - reinterpret_cast<uintptr_t>(start_)) / kHardwarePage;
      for (size_t i = 0; i < bytes / kHardwarePage; ++i) {
        if (is_backed(first + i)) backed += kHardwarePage;
      }
      return backed;
    });
  }
  bool IsZero(size_t bytes) const {
    return start_[0] == 0 && memcmp(start_, start_ + 1, bytes - 1) == 0;
  }
  // Clears and deletes the object. `replaced`: the memory that is released meanwhile, as ranges of
  // MiB in the object.
  using Ranges = std::vector<std::pair<size_t, size_t>>;
  void ExpectCleared(Span* span, const Ranges& replaced) {
    heap_.address_space().Clear(*span, span->bytes());
    Ranges ranges;
    for (const Call& call : vm_.TakeCalls()) {
      if (call.kind != Kind::kRelease) continue;
      const size_t at = call.start - reinterpret_cast<uintptr_t>(start_);
      EXPECT_EQ((at | call.bytes) % kMiB, 0u);
      ranges.emplace_back(at / kMiB, (at + call.bytes) / kMiB);
    }
    EXPECT_EQ(ranges, replaced);
    EXPECT_TRUE(IsZero(span->bytes()));
    heap_.Delete(span);
  }

  char* start_ = nullptr;
};

TEST_F(PageHeapClearTest, MemoryIsReplacedUnlessItIsBacked) {
  SetBacked([](size_t page) { return page == 1234; });
  ExpectCleared(NewUsed(64 * kMiB), {{0, 64}});
  EXPECT_LE(vm_.backed_calls(), 32u) << "asks once for each hugepage";
  SetBacked([](size_t page) { return page != 1234; });
  ExpectCleared(NewUsed(64 * kMiB), {});
}

TEST_F(PageHeapClearTest, EachHugepageOfWhichLessThanHalfIsBackedIsReplaced) {
  // Fractions of the hugepages, in 512 pages each; in between all is backed.
  constexpr size_t kBacked[] = {512, 512, 0, 256, 0, 512, 257, 512, 20, 0};
  SetBacked([&](size_t page) { return page % 512 < kBacked[page / 512]; });
  ExpectCleared(NewUsed(20 * kMiB), {{4, 10}, {16, 20}});
}

// Other spans may use the first and the last hugepage, too.
TEST_F(PageHeapClearTest, NoHugepageIsSplit) {
  heap_.governor()->SetHugepages({HugepageMode::kAdvise});
  New(1);  // an empty heap does not grow in hugepages
  Span* const span = NewUsed(48 * kMiB, kMiB);
  ASSERT_TRUE(under_test_.page_map->HugepageOf(span->first_page).advised);
  SetBacked([](size_t page) { return page < 256 || page >= 47 * 256; });
  ExpectCleared(span, {{1, 47}});
}

// A sandbox may end the process if it asks the OS which pages are backed.
TEST_F(PageHeapClearTest, WhereTheOsCannotBeAskedLongMemoryIsReplaced) {
  vm_.SetKnowsBacked(false);
  const size_t bytes = kMinReplacedBlindly.bytes();
  ExpectCleared(NewUsed(bytes - kPageSize), {});
  ExpectCleared(NewUsed(bytes), {{0, bytes / kMiB}});
  ExpectCleared(NewUsed(48 * kMiB, kMiB), {{1, 47}});
  EXPECT_EQ(vm_.backed_calls(), 0u);
}

TEST_F(PageHeapClearTest, WhatTheOsRefusesToReleaseIsCleared) {
  Span* const span = NewUsed(16 * kMiB);
  SetBacked([](size_t) { return false; });
  vm_.LockInMemory(start_ + 5 * kMiB, kMiB);
  heap_.address_space().Clear(*span, 16 * kMiB);
  EXPECT_EQ(vm_.release_failures(), 1u);
  EXPECT_TRUE(IsZero(16 * kMiB));
}

TEST_F(PageHeapClearTest, ShortMemoryIsClearedWithoutAsking) {
  const size_t bytes = kHugepageSize;
  const Span* const span = NewUsed(bytes);
  heap_.address_space().Clear(*span, bytes - 100);
  EXPECT_EQ(vm_.backed_calls(), 0u);
  EXPECT_TRUE(IsZero(bytes - 100));
  EXPECT_EQ(start_[bytes - 100], 'x') << "only what was asked for";
}

TEST_F(PageHeapClearTest, NothingIsReplacedWhereThatIsForbiddenOrLeavesContents) {
  SetBacked([](size_t) { return false; });
  heap_.hints().releasing.Set(Releasing::kNever);
  ExpectCleared(NewUsed(16 * kMiB), {});
  heap_.hints().releasing.Set(Releasing::kByPolicy);
  // Released memory of a file or a device has contents.
  vm_.SetZeroFilled(false);
  ExpectCleared(NewUsed(64 * kMiB), {});
}

// A program allocates, uses parts of objects, resizes, moves and frees them, with and without
// pools. The OS releases memory, refuses, and says anything about what is backed. New objects are
// cleared and read, as is all released memory.
class ZeroModel {
 public:
  // `is_short`: address space is short, so that memory is unmapped; else there is room for moves.
  ZeroModel(size_t hardware_page, bool is_short, uint64_t seed)
      : is_short_(is_short),
        random_(seed),
        under_test_(RealMemory(hardware_page, (is_short ? 64 : 1024) * kMiB),
                    {.unmap_when_short = true}) {
    vm_.AnswerBacked([this](uintptr_t, size_t bytes) {
      const size_t kind = random_.Below(3);
      return kind == 0 ? 0 : kind == 1 ? bytes : random_.Below(bytes + 1);
    });
  }

  void Run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      Step();
      if (step % 25 == 0) CheckReleased();
    }
    EXPECT_GT(cleared_, 100);
    EXPECT_GT(replaced_, 20);
    EXPECT_GT(refused_, 5);
    EXPECT_GT(composed_, 10);
    EXPECT_GT(is_short_ ? vm_.unmap_calls() : moved_, 5u);
    while (!live_.empty()) Delete();
    heap_.store()->CheckInvariants();
  }

 private:
  void Step() {
    if (random_.OneIn(20)) vm_.FailRelease(random_.Between(1, 3), random_.Between(1, 3));
    if (random_.OneIn(200)) vm_.FailUnmap(random_.Between(1, 3));
    if (random_.OneIn(30)) heap_.ReleaseAtLeast(Length(random_.Between(1, 2000)));
    if (random_.OneIn(100)) heap_.DrainSpanCaches();
    if (random_.OneIn(8) && !live_.empty()) return Resize();
    const size_t percent = growing_ ? 65 : 35;
    if (random_.OneIn(100)) growing_ = !growing_;
    if (heap_.GetStats().large_span_bytes > 64 * kMiB) growing_ = false;
    if (live_.empty() || random_.Below(100) < percent) return Allocate();
    Delete();
  }

  // The words that the program may write: at both ends of each page.
  template <typename F>
  static void ForEachWord(char* start, size_t bytes, F f) {
    for (size_t at = 0; at < bytes; at += kPageSize) {
      f(*reinterpret_cast<uint64_t*>(start + at));
      f(*reinterpret_cast<uint64_t*>(start + at + kPageSize - sizeof(uint64_t)));
    }
  }
  static size_t CountNotZero(char* start, size_t bytes) {
    size_t count = 0;
    ForEachWord(start, bytes, [&](uint64_t& word) { count += word != 0; });
    return count;
  }

  void Allocate() {
    const Length n(random_.OneIn(4)   ? random_.Between(1, 8)
                   : random_.OneIn(2) ? random_.Between(1, 400)
                                      : random_.Between(1, 2500));
    const Length alignment(random_.OneIn(8) ? size_t{1} << random_.Below(10) : 1);
    SpanHome* const keeper =
        alignment == Length(1) && random_.OneIn(2) ? &under_test_.homes[random_.Below(2)] : nullptr;
    Span* const span = heap_.New(n, SpanState::kLarge, alignment, keeper);
    if (span == nullptr) {
      growing_ = false;
      return;
    }
    char* const start = static_cast<char*>(span->start_address());
    const size_t written = span->in_use.written.bytes();
    ASSERT_EQ(CountNotZero(start + written, span->bytes() - written), 0u) << "after `written`";
    composed_ += written > 0 && written < span->bytes();
    const size_t bytes = span->bytes() - random_.Below(std::min(span->bytes(), kPageSize));
    const size_t releases = vm_.release_calls();
    const size_t failures = vm_.release_failures();
    heap_.address_space().Clear(*span, bytes);
    replaced_ += vm_.release_calls() > releases;
    refused_ += vm_.release_failures() > failures;
    ++cleared_;
    const size_t whole = bytes / kPageSize * kPageSize;
    ASSERT_EQ(CountNotZero(start, whole), 0u) << "of " << n.pages() << " pages";
    for (size_t at = whole; at < bytes; ++at) ASSERT_EQ(start[at], 0) << at - whole;
    live_.push_back(span);
    Use(span);
  }

  // Writes to nothing, to some pages, or to all of them.
  void Use(Span* span) {
    const size_t kind = random_.Below(4);
    if (kind == 0) return;
    ForEachWord(static_cast<char*>(span->start_address()), span->bytes(), [&](uint64_t& word) {
      if (kind < 3 && !random_.OneIn(kind == 1 ? 2 : 50)) return;
      word = 1 + random_.Below(1000);
    });
  }

  void Delete() {
    std::swap(live_[random_.Below(live_.size())], live_.back());
    Span* const span = live_.back();
    live_.pop_back();
    SpanHome* const keeper = random_.OneIn(2) ? &under_test_.homes[random_.Below(2)] : nullptr;
    ASSERT_TRUE(heap_.DeleteLargeAt(span, span->start_address(), nullptr, keeper));
  }

  void Resize() {
    Span*& span = live_[random_.Below(live_.size())];
    if (random_.OneIn(4)) heap_.ReleaseAtLeast(kAllPages);
    const Length n(random_.Between(1, 2 * span->num_pages.pages()));
    if (heap_.ResizeLargeAt(span, span->start_address(), n)) return Use(span);
    if (n <= span->num_pages) return;
    Span* const moved = heap_.MoveLargeAt(span, span->start_address(), n);
    if (moved == nullptr) return;
    ++moved_;
    span = moved;
    Use(span);
  }

  // P8, for free memory.
  void CheckReleased() {
    heap_.store()->CheckInvariants();
    const PageStats stats = heap_.GetStats();
    ASSERT_EQ(stats.system_bytes, vm_.mapped_bytes());
    ASSERT_EQ(stats.free_backed_bytes + stats.free_released_bytes + stats.large_span_bytes,
              stats.system_bytes);
    ASSERT_EQ(stats.large_spans, live_.size());
    ASSERT_EQ(stats.kept_span_bytes,
              under_test_.homes[0].pool.bytes() + under_test_.homes[1].pool.bytes());
    ForEachSpan(heap_, [](const SpanView& span) {
      if (span.state != SpanState::kFreeReleased) return;
      char* const start = static_cast<char*>(span.first_page.start_address());
      ASSERT_EQ(CountNotZero(start, span.num_pages.bytes()), 0u) << "in a released span";
    });
  }

  const bool is_short_;
  SeededRandom random_;
  PageHeapUnderTest under_test_;
  PageHeap& heap_ = under_test_.heap;
  FakeVirtualMemory& vm_ = under_test_.vm;
  std::vector<Span*> live_;
  bool growing_ = true;
  int cleared_ = 0;
  int replaced_ = 0;
  int refused_ = 0;
  int composed_ = 0;
  size_t moved_ = 0;
};

TEST(PageHeapZeroTest, WhatCountsAsZeroIs) { ZeroModel(4096, false, 42).Run(1000); }

TEST(PageHeapZeroTest, WhatCountsAsZeroIsWhereAddressSpaceIsShort) {
  ZeroModel(65536, true, 43).Run(3000);
}

}  // namespace
}  // namespace tcmalloc
