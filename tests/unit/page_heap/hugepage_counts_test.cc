// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/hugepage_counts.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "page_heap/page_heap_fixture.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr size_t kAtOnce = kSearchedAtOnce;
constexpr size_t kHugepagesPerLeaf = PageMap::kLeafPages / kHugepagePages.pages();

// The first page of a hugepage of a leaf.
PageId At(size_t leaf, size_t hugepage = 0) {
  return PageId((leaf << PageMap::kLeafBits) + hugepage * kHugepagePages.pages());
}
PageRange Hugepages(size_t leaf, size_t hugepage, size_t n = 1) {
  return {At(leaf, hugepage), At(leaf, hugepage + n)};
}

// Every marked part that a search found, and the number of calls of Find.
struct Search {
  std::vector<PageRange> parts;
  size_t calls = 0;
};

class SmallPlacesTest : public testing::Test {
 protected:
  // Makes a leaf: it must exist before a test marks it, as leaves of the heap do.
  void Add(size_t leaf) { ASSERT_TRUE(page_map_->EnsureLeaves(At(leaf), Length(1), vm_)); }
  void Mark(PageRange range) {
    Add(range.first.index() >> PageMap::kLeafBits);
    places_.Mark(range);
  }
  Search All(PageId from = PageId()) const {
    Search search;
    for (PageRange part = {from, from}; ++search.calls, places_.Find(&part);) {
      if (part.first < part.end) search.parts.push_back(part);
      part.first = part.end;
    }
    return search;
  }

  FakeVirtualMemory vm_;
  const std::unique_ptr<PageMap> page_map_ = std::make_unique<PageMap>();
  SmallPlaces places_{*page_map_};
};

bool operator==(const std::vector<PageRange>& parts, const std::vector<PageRange>& expected) {
  if (parts.size() != expected.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].first != expected[i].first || parts[i].end != expected[i].end) return false;
  }
  return true;
}

// Leaves that are far apart share a bit. One of these leaves may not exist.
TEST_F(SmallPlacesTest, LeavesWithOneBit) {
  if (PageMap::kRootEntries <= 4096) GTEST_SKIP() << "each leaf has a bit of its own";
  Mark(Hugepages(10 + 3 * 4096, 1));
  Mark(Hugepages(10 + 7 * 4096, 2));
  Add(10);
  const Search search = All();
  EXPECT_TRUE(search.parts ==
              (std::vector<PageRange>{Hugepages(10 + 3 * 4096, 1), Hugepages(10 + 7 * 4096, 2)}));
  // Three leaves are searched. The leaves between them take one step for each 16 TiB.
  EXPECT_LE(search.calls, 3 * ((kHugepagesPerLeaf + kAtOnce - 1) / kAtOnce) + 3);
}

// One call, which holds the page heap's lock, passes or finds a bounded number of hugepages.
TEST_F(SmallPlacesTest, OneCallTakesABoundedNumberOfSteps) {
  if (kHugepagesPerLeaf <= kAtOnce) GTEST_SKIP() << "a leaf is searched at once";
  Mark(Hugepages(3, kHugepagesPerLeaf - 1));
  PageRange part = {At(3), At(3)};
  size_t calls = 0;
  do {
    const PageId before = part.first;
    ASSERT_TRUE(places_.Find(&part));
    EXPECT_LE((part.end - before).pages(), kAtOnce * kHugepagePages.pages());
    ++calls;
  } while (part.first == part.end);
  EXPECT_EQ(calls, (kHugepagesPerLeaf + kAtOnce - 1) / kAtOnce);
  EXPECT_EQ(part.first, At(3, kHugepagesPerLeaf - 1));
  // A long part is not found in one call, either.
  Mark(Hugepages(4, 0, kHugepagesPerLeaf));
  part = {At(4), At(4)};
  ASSERT_TRUE(places_.Find(&part));
  EXPECT_EQ(part.first, At(4));
  EXPECT_EQ(part.end, At(4, kAtOnce));
}

TEST_F(SmallPlacesTest, RandomMarks) {
  SeededRandom random(2511);
  constexpr size_t kLeaves = 5;
  std::set<PageId> marked;
  for (size_t leaf = 0; leaf < kLeaves; ++leaf) Add(leaf + 1);
  for (int round = 0; round < 200; ++round) {
    const size_t leaf = 1 + random.Below(kLeaves);
    const size_t first = random.Below(kHugepagesPerLeaf);
    const size_t n = std::min(kHugepagesPerLeaf - first, random.Between(1, 5));
    Mark(Hugepages(leaf, first, n));
    for (size_t i = first; i < first + n; ++i) marked.insert(At(leaf, i));
    PageId from = At(random.Below(kLeaves + 1), random.Below(kHugepagesPerLeaf));
    std::set<PageId> found;
    for (const PageRange& part : All(from).parts) {
      for (PageId page = part.first; page < part.end; page = HugepageEnd(page)) found.insert(page);
    }
    ASSERT_EQ(found, (std::set<PageId>(marked.lower_bound(from), marked.end()))) << round;
  }
}

// Only spans of small objects mark a hugepage. The mark lasts as long as any part of the hugepage
// is in use.
TEST(SmallPlacesOfAHeapTest, MarksFollowTheSpans) {
  PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(uint64_t{64} << 20));
  PageHeap& heap = under_test.heap;
  const auto has_marks = [&heap] {
    PageRange part{};
    while (heap.store()->FindSmall(&part)) {
      if (part.first < part.end) return true;
    }
    return false;
  };
  Span* const large = heap.New(Length(10), SpanState::kLarge);
  EXPECT_FALSE(has_marks());
  Span* const a = heap.New(Length(1), SpanState::kSmall);
  Span* const b = heap.New(Length(1), SpanState::kSmall);
  EXPECT_TRUE(has_marks());
  heap.store()->CheckInvariants();
  heap.Delete(a);
  EXPECT_TRUE(has_marks());
  heap.Delete(b);
  heap.Delete(large);
  EXPECT_FALSE(has_marks());
  heap.store()->CheckInvariants();
}

}  // namespace

}  // namespace tcmalloc
