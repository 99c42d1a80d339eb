// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/page_map.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "page_heap/span.h"
#include "testing/fake_virtual_memory.h"
#include "testing/random.h"
#include "testing/run_threads.h"

namespace tcmalloc {
namespace {

constexpr size_t kLeafPages = PageMap::kLeafPages;
constexpr bool kLeavesComeTogether = PageMap::kLeavesAtOnce == PageMap::kRootEntries;
// The first page that no user address can have.
constexpr PageId kEndOfAddresses = PageId(uintptr_t{1} << (kAddressBits - kPageShift));

void* Address(uintptr_t bits) { return reinterpret_cast<void*>(bits); }

SizeClass Class(size_t index) { return static_cast<SizeClass>(index); }

class PageMapTest : public testing::Test {
 protected:
  // The bytes that the OS maps for one leaf, or for all leaves if they are mapped together.
  size_t LeafBytes() {
    const auto map = std::make_unique<PageMap>();
    FakeVirtualMemory vm;
    EXPECT_TRUE(map->EnsureLeaves(PageId(0), Length(1), vm));
    EXPECT_EQ(vm.mapped_bytes(), map->mapped_bytes());
    return map->mapped_bytes();
  }

  // The bytes that `n` leaves take.
  static size_t BytesOf(size_t n) { return (kLeavesComeTogether ? 1 : n) * PageMap::leaf_bytes(); }

  FakeVirtualMemory vm_;
  // The page map is large, and zero-filled as PageMap requires.
  const std::unique_ptr<PageMap> map_ = std::make_unique<PageMap>();
};

TEST_F(PageMapTest, KnowsWhichAddressesAreInRange) {
  constexpr uint64_t kEnd = uint64_t{1} << kAddressBits;
  const auto in_range = [](uint64_t bits) {
    return PageMap::InRange(Address(static_cast<uintptr_t>(bits)));
  };
  EXPECT_TRUE(in_range(0));
  EXPECT_TRUE(in_range(kEnd - 1));
  // If pointers have no more bits, every address is in range.
  constexpr bool kAllAre = kEnd - 1 == UINTPTR_MAX;
  EXPECT_EQ(in_range(kEnd), kAllAre);
  EXPECT_EQ(in_range(UINTPTR_MAX / 2 + 1), kAllAre);
  EXPECT_EQ(in_range(UINTPTR_MAX), kAllAre);
  // This is like an address of the kernel.
  EXPECT_EQ(in_range(~(kEnd / 2 - 1)), kAllAre);
}

// Random runs of pages in a few leaves, the first and the last of the address space among them, get
// classes and spans. A std::map has the expected results for each page, for adjacent pages, and for
// addresses with other high bits.
TEST_F(PageMapTest, AgreesWithAStdMap) {
  SeededRandom random(8);
  const PageId centres[] = {PageId(kLeafPages / 2),
                            PageId(7 * kLeafPages),
                            PageId(8 * kLeafPages),
                            PageId(static_cast<uintptr_t>(0x7f12'3456'7000) >> kPageShift),
                            kEndOfAddresses - Length(kLeafPages),
                            kEndOfAddresses - Length(100)};
  std::map<PageId, SizeClass> classes;
  std::map<PageId, Span*> spans;
  std::vector<Span> records(50);
  const auto random_page = [&] {
    PageId page = centres[random.Below(std::size(centres))] + Length(random.Below(100));
    // Pages lie on both sides of the centre, so that runs cross the boundary of leaves.
    if (random.OneIn(2) && page.index() > 50) page = page - Length(50);
    return page;
  };
  for (int step = 0; step < 5000; ++step) {
    const PageId first = random_page();
    Length n(random.Between(1, 60));
    if (first + n > kEndOfAddresses) n = kEndOfAddresses - first;
    ASSERT_TRUE(map_->EnsureLeaves(first, n, vm_));
    const SizeClass size_class = Class(random.Below(kNumSizeClasses));
    Span* const span = random.OneIn(4) ? nullptr : &records[random.Below(records.size())];
    switch (random.Below(3)) {
      case 0:
        map_->SetClassOfAll(first, n, size_class);
        for (PageId p = first; p < first + n; p += Length(1)) classes[p] = size_class;
        break;
      case 1:
        map_->SetSpanOfAll(first, n, span);
        for (PageId p = first; p < first + n; p += Length(1)) spans[p] = span;
        break;
      default:
        map_->SetSpan(first, span);
        spans[first] = span;
    }
    for (int i = 0; i < 20; ++i) {
      const PageId probe = random_page();
      if (probe >= kEndOfAddresses) continue;
      const auto expected_class = classes.find(probe);
      const uintptr_t address = probe.start_uintptr() + random.Below(kPageSize);
      const SizeClass answer =
          expected_class == classes.end() ? SizeClass::kNone : expected_class->second;
      ASSERT_EQ(map_->ClassOf(Address(address)), answer);
      // Higher bits are ignored.
      const uintptr_t high = static_cast<uintptr_t>(random.Next() << (kAddressBits - 1) << 1);
      ASSERT_EQ(map_->ClassOf(Address(address | high)), high == 0 ? answer : SizeClass::kNone);
      ASSERT_EQ(PageMap::WithoutUpperBits(Address(address | high)), Address(address));
      const auto expected_span = spans.find(probe);
      ASSERT_EQ(map_->SpanOf(probe),
                expected_span == spans.end() ? nullptr : expected_span->second);
      if (high != 0) {
        ASSERT_EQ(map_->SpanOf(PageId::Containing(Address(address | high))), nullptr);
      }
    }
  }
}

TEST_F(PageMapTest, LeavesAreMappedOnceEach) {
  const size_t leaf = LeafBytes();
  const PageId border(5 * kLeafPages);
  ASSERT_TRUE(map_->EnsureLeaves(border - Length(1), Length(1), vm_));
  EXPECT_EQ(map_->mapped_bytes(), leaf);
  EXPECT_EQ(map_->SpanOf(border), nullptr);
  Span span;
  map_->SetSpan(border - Length(1), &span);
  map_->SetClassOfAll(border - Length(1), Length(1), Class(3));
  ASSERT_TRUE(map_->EnsureLeaves(border - Length(1), Length(2), vm_));
  EXPECT_EQ(map_->mapped_bytes(), BytesOf(2));
  EXPECT_EQ(map_->SpanOf(border - Length(1)), &span);
  EXPECT_EQ(map_->ClassOf((border - Length(1)).start_address()), Class(3));
  EXPECT_EQ(map_->ClassOf(border.start_address()), SizeClass::kNone);
  // Makes leaves for all pages of both leaves, then for the page after them.
  ASSERT_TRUE(map_->EnsureLeaves(border - Length(kLeafPages), Length(2 * kLeafPages), vm_));
  EXPECT_EQ(map_->mapped_bytes(), BytesOf(2));
  ASSERT_TRUE(map_->EnsureLeaves(border - Length(kLeafPages), Length(2 * kLeafPages + 1), vm_));
  EXPECT_EQ(map_->mapped_bytes(), BytesOf(3));
  EXPECT_EQ(vm_.mapped_bytes(), BytesOf(3));
  EXPECT_EQ(vm_.map_calls(), kLeavesComeTogether ? 1u : 3u);
}

TEST_F(PageMapTest, PagesBehindTheAddressSpaceHaveNoLeaf) {
  EXPECT_FALSE(map_->EnsureLeaves(kEndOfAddresses, Length(1), vm_));
  EXPECT_FALSE(map_->EnsureLeaves(kEndOfAddresses - Length(1), Length(2), vm_));
  EXPECT_FALSE(map_->EnsureLeaves(PageId(UINTPTR_MAX / 2), Length(1), vm_));
  EXPECT_EQ(vm_.map_calls(), 0u);
  EXPECT_EQ(map_->SpanOf(kEndOfAddresses), nullptr);
  EXPECT_EQ(map_->SpanOf(PageId(UINTPTR_MAX)), nullptr);
  EXPECT_TRUE(map_->EnsureLeaves(kEndOfAddresses - Length(1), Length(1), vm_));
}

TEST_F(PageMapTest, AFailureKeepsWhatIsThereAndMayBeRepeated) {
  const size_t kept = kLeavesComeTogether ? 0 : 1;
  vm_.FailMap(kept + 1);
  EXPECT_FALSE(map_->EnsureLeaves(PageId(0), Length(3 * kLeafPages), vm_));
  EXPECT_EQ(map_->mapped_bytes(), kept * BytesOf(1));
  Span span;
  if (kept > 0) map_->SetSpan(PageId(17), &span);
  EXPECT_EQ(map_->SpanOf(PageId(kLeafPages)), nullptr);
  EXPECT_TRUE(map_->EnsureLeaves(PageId(0), Length(3 * kLeafPages), vm_));
  EXPECT_EQ(map_->mapped_bytes(), BytesOf(3));
  EXPECT_EQ(map_->SpanOf(PageId(17)), kept > 0 ? &span : nullptr);
}

// Another thread adds the same leaf while this one is in a system call, or another leaf, which may
// be mapped together with this one. What was mapped twice is unmapped again.
TEST_F(PageMapTest, TwoThreadsMayAddLeavesAtOnce) {
  Span spans[2];
  const PageId mine(5 * kLeafPages);
  for (const PageId theirs : {mine, PageId(3 * kLeafPages)}) {
    const auto map = std::make_unique<PageMap>();
    FakeVirtualMemory vm;
    vm.OnNextMap([&] {
      ASSERT_TRUE(map->EnsureLeaves(theirs, Length(1), vm));
      map->SetSpan(theirs, &spans[0]);
    });
    EXPECT_TRUE(map->EnsureLeaves(mine, Length(1), vm));
    map->SetSpan(mine + Length(1), &spans[1]);
    EXPECT_EQ(map->SpanOf(theirs), &spans[0]);
    EXPECT_EQ(map->SpanOf(mine), theirs == mine ? &spans[0] : nullptr);
    EXPECT_EQ(map->mapped_bytes(), BytesOf(theirs == mine ? 1 : 2));
    EXPECT_EQ(vm.mapped_bytes(), map->mapped_bytes());
  }
}

// Many threads need the same leaves. Each writes entries of its own pages and reads those of all
// threads. ThreadSanitizer checks this.
TEST_F(PageMapTest, ManyThreadsMayAddLeavesAtOnce) {
  constexpr size_t kThreads = 8;
  constexpr size_t kLeaves = 12;
  std::vector<Span> records(kThreads);
  RunThreads(kThreads, [&](size_t t) {
    for (size_t i = 0; i < kLeaves; ++i) {
      const PageId border((i + 1) * kLeafPages);
      ASSERT_TRUE(map_->EnsureLeaves(border - Length(kThreads), Length(2 * kThreads), vm_));
      for (const PageId mine : {border - Length(1 + t), border + Length(t)}) {
        map_->SetSpan(mine, &records[t]);
        map_->SetClassOfAll(mine, Length(1), Class(t + 1));
        EXPECT_EQ(map_->SpanOf(mine), &records[t]);
      }
      for (size_t other = 0; other < kThreads; ++other) {
        const PageId page = border + Length(other);
        Span* const span = map_->SpanOf(page);
        EXPECT_TRUE(span == nullptr || span == &records[other]);
        const SizeClass size_class = map_->ClassOf(page.start_address());
        EXPECT_TRUE(size_class == SizeClass::kNone || size_class == Class(other + 1));
      }
    }
  });
  for (size_t i = 0; i < kLeaves; ++i) {
    for (size_t t = 0; t < kThreads; ++t) {
      const PageId border((i + 1) * kLeafPages);
      ASSERT_EQ(map_->SpanOf(border + Length(t)), &records[t]);
      ASSERT_EQ(map_->SpanOf(border - Length(1 + t)), &records[t]);
    }
  }
  EXPECT_EQ(map_->mapped_bytes(), vm_.mapped_bytes());
}

}  // namespace
}  // namespace tcmalloc
