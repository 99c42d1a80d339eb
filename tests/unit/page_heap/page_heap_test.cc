// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/page_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "page_heap/release_policy.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/kept_spans.h"
#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

// On 32-bit machines this is a part of the address space.
constexpr auto kRange =
    static_cast<size_t>(std::min<uint64_t>(uint64_t{64} << 30, FakeVirtualMemory::kMaxRange));

class PageHeapTest : public testing::Test {
 protected:
  PageHeapTest() {
    clock_ms_ = 0;
    heap_.governor()->SetReleaseRate(0);
  }

  Span* New(size_t pages) {
    Span* const span = heap_.New(Length(pages), SpanState::kLarge);
    EXPECT_NE(span, nullptr);
    return span;
  }

  static inline int64_t clock_ms_ = 0;

  PageHeapUnderTest under_test_{FakeVirtualMemory::AddressOnly(kRange),
                                {.now_ms = [] { return clock_ms_; }}};
  PageHeap& heap_ = under_test_.heap;
  FakeVirtualMemory& vm_ = under_test_.vm;
};

TEST_F(PageHeapTest, RefusesMoreThanAnyAddressSpace) {
  for (const Length n :
       {kAllPages, kAllPages - Length(1), Length(SIZE_MAX >> 14), Length((SIZE_MAX >> 14) + 1),
        Length(SIZE_MAX), Length(SIZE_MAX / 2), Length(size_t{1} << (kAddressBits - 8))}) {
    EXPECT_EQ(heap_.New(n, SpanState::kLarge), nullptr) << n.pages();
  }
  for (size_t shift = kAddressBits - kPageShift + 1; shift < sizeof(size_t) * 8; ++shift) {
    const Length alignment(size_t{1} << shift);
    EXPECT_EQ(heap_.New(Length(1), SpanState::kLarge, alignment), nullptr) << shift;
    EXPECT_EQ(heap_.New(alignment, SpanState::kLarge, alignment), nullptr) << shift;
    // The sum of length and alignment overflows to a small number.
    EXPECT_EQ(heap_.New(Length(SIZE_MAX - 5), SpanState::kLarge, alignment), nullptr);
    EXPECT_EQ(heap_.New(Length(SIZE_MAX - 5), SpanState::kLarge, Length(64)), nullptr);
  }
  EXPECT_EQ(vm_.mapped_bytes(), 0u);
  heap_.CheckInvariants();
}

// One fake OS for records, leaves and pages refuses the nth mapping and all later ones. Nothing
// leaks, and when the OS no longer refuses, the heap works again.
TEST(PageHeapOutOfMemoryTest, SurvivesTheFailureOfAnyMapping) {
  for (size_t nth = 1; nth <= 12; ++nth) {
    FakeVirtualMemory vm;
    const auto page_map = std::make_unique<PageMap>();
    MetadataArena arena(vm);
    PageHeap heap(vm, *page_map, arena);
    vm.FailMap(nth, FakeVirtualMemory::kForever);
    std::vector<Span*> spans;
    for (int i = 0; i < 200; ++i) {
      Span* const span = heap.New(Length(100), SpanState::kLarge);
      if (span == nullptr) break;
      spans.push_back(span);
    }
    ASSERT_LT(spans.size(), 200u);
    heap.CheckInvariants();
    const auto accounted = [&] {
      return heap.GetStats().system_bytes + arena.mapped_bytes() + page_map->mapped_bytes();
    };
    EXPECT_EQ(vm.mapped_bytes(), accounted()) << nth;
    const size_t metadata_in_use = arena.allocated_bytes();
    EXPECT_EQ(heap.New(Length(5000), SpanState::kLarge), nullptr);
    EXPECT_EQ(arena.allocated_bytes(), metadata_in_use) << "records leak when growth fails";
    vm.StopFailing();
    EXPECT_NE(heap.New(Length(5000), SpanState::kLarge), nullptr);
    for (Span* const span : spans) heap.Delete(span);
    heap.CheckInvariants();
    EXPECT_EQ(vm.mapped_bytes(), accounted()) << nth;
  }
}

// If a large part of the memory is locked, a free does not try to release all of it.
TEST_F(PageHeapTest, ADueReleaseEndsAfterSomeRefusals) {
  std::vector<Span*> spans;
  for (int i = 0; i < 1000; ++i) {
    spans.push_back(New(2));
    New(1);
  }
  vm_.LockInMemory(reinterpret_cast<void*>(vm_.base()), kRange);
  for (Span* const span : spans) heap_.Delete(span);
  heap_.governor()->SetReleaseRate(1);
  clock_ms_ = 100'000;
  EXPECT_EQ(heap_.ReleaseDue(kAllPages, false), Length(0));
  clock_ms_ = 200'000;
  EXPECT_EQ(heap_.ReleaseDue(kAllPages, false), Length(0));
  EXPECT_GT(vm_.release_calls(), 0u);
  EXPECT_LE(vm_.release_calls(), 64u);
  heap_.CheckInvariants();
  // A requested release tries all of it.
  EXPECT_EQ(heap_.ReleaseAtLeast(kAllPages), Length(0));
  EXPECT_GE(vm_.release_calls(), 1000u);
  heap_.CheckInvariants();
}

// While b is being released, its neighbours are freed, allocated and freed again.
TEST(PageHeapInterleavingTest, NeighboursMayChangeWhileASpanIsBeingReleased) {
  for (const bool released : {true, false}) {
    PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(kMiB));
    PageHeap& heap = under_test.heap;
    heap.governor()->SetReleaseRate(0);
    Span* const a = heap.New(Length(32), SpanState::kLarge);
    Span* const b = heap.New(Length(64), SpanState::kLarge);
    Span* const c = heap.New(Length(32), SpanState::kLarge);
    heap.Delete(b);
    under_test.vm.OnNextRelease([&] {
      EXPECT_EQ(heap.GetStats().releasing_bytes, 64 * kPageSize);
      heap.CheckInvariants();
      heap.Delete(a);
      heap.Delete(c);
      heap.CheckInvariants();
      EXPECT_EQ(heap.GetStats().free_backed_spans, 2u);
      // No page that is being released may be handed out.
      EXPECT_EQ(heap.New(Length(33), SpanState::kLarge), nullptr);
      Span* const again = heap.New(Length(32), SpanState::kLarge);
      ASSERT_NE(again, nullptr);
      heap.CheckInvariants();
      heap.Delete(again);
      EXPECT_FALSE(heap.DeleteLargeAt(b, b->start_address()));
      if (!released) under_test.vm.FailRelease(1);
    });
    // If the OS refuses b, the pass continues with the adjacent spans.
    EXPECT_EQ(heap.ReleaseAtLeast(Length(64)), Length(64));
    heap.CheckInvariants();
    EXPECT_EQ(heap.GetStats().releasing_bytes, 0u);
    EXPECT_EQ(heap.GetStats().free_released_bytes + heap.GetStats().free_backed_bytes, kMiB);
    EXPECT_EQ(heap.ReleaseAtLeast(kAllPages), Length(64));
    EXPECT_EQ(heap.GetStats().free_released_spans, 1u);
    EXPECT_TRUE(heap.New(Length(128), SpanState::kLarge)->zeroed());
  }
}

// Memory that is not known to be zero-filled never counts as zero-filled: neither when it is new
// nor when it was released.
TEST(PageHeapMemoryTest, MemoryThatIsNotZeroFilledNeverCountsAsZeroFilled) {
  PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(size_t{1} << 30));
  PageHeap& heap = under_test.heap;
  heap.governor()->SetReleaseRate(0);
  under_test.vm.SetZeroFilled(false);
  Span* const span = heap.New(Length(100), SpanState::kLarge);
  EXPECT_FALSE(span->zeroed());
  // The memory may be backed from the beginning.
  EXPECT_EQ(heap.GetStats().free_backed_bytes, kMiB - span->bytes());
  EXPECT_EQ(heap.GetStats().free_released_bytes, 0u);
  heap.Delete(span);
  heap.ReleaseAtLeast(kAllPages);
  EXPECT_EQ(heap.GetStats().free_released_bytes, kMiB);
  heap.CheckInvariants();
  // Cuts the free span at the front, in the middle and at the end.
  EXPECT_FALSE(heap.New(Length(1), SpanState::kLarge)->zeroed());
  EXPECT_FALSE(heap.New(Length(1), SpanState::kLarge, Length(16))->zeroed());
  EXPECT_FALSE(heap.New(Length(30), SpanState::kSmall)->zeroed());
  // Metadata must not lie in this memory, because a forked child may share it.
  size_t bytes = kPageSize;
  EXPECT_EQ(heap.TakeForMetadata(&bytes), nullptr);
}

// Adjacent spans of both kinds are merged. The whole then does not count as zero-filled, and
// neither do its parts.
TEST(PageHeapMemoryTest, JoinedMemoryIsZeroFilledWhenAllOfItIs) {
  // The second of three spans is not zero-filled. The spans are released in this order.
  constexpr int kPairs[][2] = {{0, 1}, {1, 0}, {1, 2}, {2, 1}};
  for (const auto& [first, second] : kPairs) {
    PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(size_t{1} << 30));
    PageHeap& heap = under_test.heap;
    heap.governor()->SetReleaseRate(0);
    std::vector<Span*> spans;
    for (int i = 0; i < 3; ++i) {
      under_test.vm.SetZeroFilled(i != 1);
      spans.push_back(heap.New(Length::ForBytes(kMiB), SpanState::kLarge));
      EXPECT_EQ(spans.back()->zeroed(), i != 1);
    }
    for (const int i : {first, second}) {
      heap.Delete(spans[i]);
      heap.ReleaseAtLeast(kAllPages);
    }
    EXPECT_EQ(heap.GetStats().free_released_spans, 1u);
    EXPECT_FALSE(heap.New(Length::ForBytes(2 * kMiB), SpanState::kLarge)->zeroed());
    // A span that was not merged is unchanged.
    heap.Delete(spans[3 - first - second]);
    heap.ReleaseAtLeast(kAllPages);
    EXPECT_TRUE(heap.New(Length::ForBytes(kMiB), SpanState::kLarge)->zeroed());
    heap.CheckInvariants();
  }
}

TEST(PageHeapMemoryTest, AnObjectThatGrewIntoOtherMemoryIsNotZeroFilled) {
  PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(size_t{1} << 30));
  PageHeap& heap = under_test.heap;
  heap.governor()->SetReleaseRate(0);
  const Length n = Length::ForBytes(kMiB);
  Span* const first = heap.New(n, SpanState::kLarge);
  under_test.vm.SetZeroFilled(false);
  Span* const second = heap.New(n, SpanState::kLarge);
  ASSERT_EQ(second->first_page, first->first_page + n);
  heap.Delete(second);
  ASSERT_TRUE(heap.ResizeLargeAt(first, first->start_address(), n + n));
  heap.Delete(first);
  heap.ReleaseAtLeast(kAllPages);
  EXPECT_FALSE(heap.New(n + n, SpanState::kLarge)->zeroed());
}

// Sources of memory with large units return more than requested.
TEST(PageHeapMemoryTest, UsesTheWholeMapping) {
  PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(size_t{1} << 30));
  under_test.vm.SetMore(kMiB + 3 * kPageSize + 4096);
  PageHeap& heap = under_test.heap;
  ASSERT_NE(heap.New(Length(1), SpanState::kLarge), nullptr);
  EXPECT_EQ(heap.GetStats().system_bytes, 2 * kMiB + 3 * kPageSize);
  EXPECT_NE(heap.New(Length::ForBytes(2 * kMiB) + Length(2), SpanState::kLarge), nullptr);
  EXPECT_EQ(under_test.vm.map_calls(), 1u);
  heap.CheckInvariants();
}

// Growth in advance stops at the known limit of the source, so that the limit can be reached
// exactly.
TEST(PageHeapMemoryTest, GrowsOnlyByTheRoomOfTheSource) {
  PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(size_t{1} << 30));
  PageHeap& heap = under_test.heap;
  under_test.vm.SetRoom(5 * kPageSize);
  ASSERT_NE(heap.New(Length(2), SpanState::kLarge), nullptr);
  EXPECT_EQ(heap.GetStats().system_bytes, 5 * kPageSize);
  under_test.vm.SetRoom(0);
  // Beyond that limit the heap grows by the needed length, and the OS may refuse.
  ASSERT_NE(heap.New(Length(7), SpanState::kLarge), nullptr);
  EXPECT_EQ(heap.GetStats().system_bytes, 12 * kPageSize);
  // If the rest of the source is too short, another source serves the request, with the usual
  // growth.
  under_test.vm.SetRoom(4096);
  ASSERT_NE(heap.New(Length(7), SpanState::kLarge), nullptr);
  EXPECT_EQ(heap.GetStats().system_bytes, 12 * kPageSize + kMiB);
}

// When the heap grows past a multiple of 4 GiB, the page map needs another leaf. The leaf must not
// lie between the heap's mappings, which then could not become one free span.
TEST(PageHeapAddressSpaceTest, GrowthGoesOnPastTheEndOfALeaf) {
  if (sizeof(void*) == 4) GTEST_SKIP() << "SKIP: there is one mapping of leaves on 32 bits";
  SystemVirtualMemory vm;
  void* const map_memory = mmap(nullptr, sizeof(PageMap), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(map_memory, MAP_FAILED);
  PageMap& map = *new (map_memory) PageMap;
  {
    MetadataArena arena(vm);
    PageHeap heap(vm, map, arena);
    constexpr size_t kNumSpans = 80;
    const Length length = Length::ForBytes(64 * kMiB);
    std::vector<Span*> spans;
    // The test never touches the spans, so they take no memory.
    for (size_t i = 0; i < kNumSpans; ++i) {
      spans.push_back(heap.New(length, SpanState::kLarge));
      ASSERT_NE(spans.back(), nullptr);
    }
    std::sort(spans.begin(), spans.end(),
              [](const Span* a, const Span* b) { return a->first_page < b->first_page; });
    // If the process has other mappings in the way, for example of other tests, the OS places a
    // mapping elsewhere.
    size_t pieces = 1;
    bool past_a_leaf = false;
    for (size_t i = 1; i < kNumSpans; ++i) {
      const PageId end = spans[i - 1]->first_page + length;
      if (spans[i]->first_page != end) ++pieces;
      const bool joins = spans[i]->first_page == end;
      past_a_leaf |= joins && spans[i - 1]->first_page.index() / PageMap::kLeafPages !=
                                  spans[i]->first_page.index() / PageMap::kLeafPages;
    }
    EXPECT_TRUE(past_a_leaf);
    for (Span* const span : spans) heap.Delete(span);
    heap.ReleaseAtLeast(Length(SIZE_MAX));
    EXPECT_EQ(heap.GetStats().free_released_spans, pieces);
    heap.CheckInvariants();
  }
  munmap(map_memory, sizeof(PageMap));
}

// Pages may be larger than hardware pages: every byte of a heap is in its mappings.
TEST(PageHeapAddressSpaceTest, MappingsAreWholePages) {
  void* const map_memory = mmap(nullptr, sizeof(PageMap), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(map_memory, MAP_FAILED);
  PageMap& map = *new (map_memory) PageMap;
  SystemVirtualMemory vm;
  MetadataArena arena(vm);
  for (int i = 0; i < 32; ++i) {
    PageHeap heap(vm, map, arena);
    // Makes mappings start at any hardware page.
    ASSERT_NE(mmap(nullptr, kHardwarePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
              MAP_FAILED);
    Span* const span = heap.New(Length::ForBytes(kMiB), SpanState::kLarge);
    ASSERT_NE(span, nullptr);
    memset(span->start_address(), 'x', span->bytes());
  }
  munmap(map_memory, sizeof(PageMap));
}

// Two threads grow the heap at once. Their mappings are adjacent, in either order, and are merged.
TEST(PageHeapInterleavingTest, TwoThreadsMayGrowAtOnce) {
  for (const auto placement :
       {FakeVirtualMemory::Placement::kUpwards, FakeVirtualMemory::Placement::kDownwards}) {
    FakeVirtualMemory::Options options = FakeVirtualMemory::AddressOnly(8 * kMiB);
    options.placement = placement;
    PageHeapUnderTest under_test(options);
    PageHeap& heap = under_test.heap;
    heap.governor()->SetReleaseRate(0);
    Span* inner = nullptr;
    under_test.vm.OnNextMap([&] { inner = heap.New(Length(100), SpanState::kLarge); });
    Span* const outer = heap.New(Length(100), SpanState::kLarge);
    ASSERT_NE(inner, nullptr);
    ASSERT_NE(outer, nullptr);
    heap.CheckInvariants();
    EXPECT_EQ(heap.GetStats().system_bytes, 2 * kMiB);
    EXPECT_TRUE(inner->last_page() < outer->first_page || outer->last_page() < inner->first_page);
    heap.Delete(inner);
    heap.Delete(outer);
    EXPECT_EQ(heap.ReleaseAtLeast(kAllPages), Length(200));
    EXPECT_EQ(heap.GetStats().free_released_spans, 1u);
    heap.CheckInvariants();
  }
}

// Forks as another thread of the process does. In the child, `check` returns whether the heap is
// right. Returns true if it was.
bool ForkInAnotherThread(PageHeap& heap, const std::function<bool()>& check) {
  int status = -1;
  std::thread([&] {
    heap.lock().HoldForFork();
    const pid_t child = fork();
    if (child == 0) {
      heap.address_space().RestoreAfterForkInChild();
      heap.lock().ResetAfterForkInChild();
      heap.CheckInvariants();
      _exit(heap.GetStats().releasing_bytes == 0 && check() ? 0 : 1);
    }
    heap.lock().ReleaseAfterForkInParent();
    waitpid(child, &status, 0);
  }).join();
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The process forks in the middle of a release. In the child, the heap has the pages again and
// works.
TEST(PageHeapForkTest, PagesThatWereBeingReleasedAreFreeInTheChild) {
  FakeVirtualMemory::Options options;
  options.range_bytes = kMiB;
  PageHeapUnderTest under_test(options);
  PageHeap& heap = under_test.heap;
  heap.governor()->SetReleaseRate(0);
  Span* const a = heap.New(Length(32), SpanState::kLarge);
  Span* const b = heap.New(Length(64), SpanState::kLarge);
  heap.New(Length(32), SpanState::kLarge);
  memset(b->start_address(), 'x', b->bytes());
  heap.Delete(b);
  bool right = false;
  under_test.vm.OnNextRelease([&] {
    right = ForkInAnotherThread(heap, [&] {
      if (heap.GetStats().free_backed_bytes != 64 * kPageSize) return false;
      heap.Delete(a);
      if (heap.GetStats().free_backed_spans != 1) return false;
      Span* const span = heap.New(Length(96), SpanState::kLarge);
      if (span == nullptr || span->zeroed()) return false;
      heap.Delete(span);
      if (heap.ReleaseAtLeast(kAllPages) != Length(96)) return false;
      heap.CheckInvariants();
      return true;
    });
  });
  EXPECT_EQ(heap.ReleaseAtLeast(kAllPages), Length(64));
  EXPECT_TRUE(right);
  EXPECT_TRUE(heap.New(Length(64), SpanState::kLarge)->zeroed());
  heap.CheckInvariants();
}

// A signal handler that interrupted the release forks. The release continues in the child, too.
TEST(PageHeapForkTest, AReleaseOfTheForkingThreadContinuesInTheChild) {
  FakeVirtualMemory::Options options;
  options.range_bytes = kMiB;
  PageHeapUnderTest under_test(options);
  PageHeap& heap = under_test.heap;
  heap.governor()->SetReleaseRate(0);
  Span* const span = heap.New(Length(64), SpanState::kLarge);
  heap.Delete(span);
  pid_t child = -1;
  under_test.vm.OnNextRelease([&] {
    heap.lock().HoldForFork();
    child = fork();
    if (child == 0) heap.address_space().RestoreAfterForkInChild();
    heap.lock().ResetAfterForkInChild();
  });
  const Length released = heap.ReleaseAtLeast(kAllPages);
  heap.CheckInvariants();
  const bool right = released >= Length(64) && heap.GetStats().releasing_bytes == 0;
  if (child == 0) _exit(right ? 0 : 1);
  EXPECT_TRUE(right);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// As above, with spans that the OS refused to release and that are set aside until the end of the
// pass.
TEST(PageHeapForkTest, RefusedSpansAreFreeInTheChild) {
  PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(kMiB));
  PageHeap& heap = under_test.heap;
  heap.governor()->SetReleaseRate(0);
  Span* const a = heap.New(Length(64), SpanState::kLarge);
  heap.New(Length(1), SpanState::kLarge);
  Span* const b = heap.New(Length(32), SpanState::kLarge);
  heap.New(Length(31), SpanState::kLarge);
  under_test.vm.LockInMemory(a->start_address(), 1);
  heap.Delete(a);
  heap.Delete(b);
  bool right = false;
  const auto fork_now = [&] {
    EXPECT_EQ(under_test.vm.release_failures(), 1u);
    right = ForkInAnotherThread(
        heap, [&] { return heap.GetStats().free_backed_bytes == 96 * kPageSize; });
  };
  under_test.vm.OnNextRelease([&] { under_test.vm.OnNextRelease(fork_now); });
  EXPECT_EQ(heap.ReleaseAtLeast(kAllPages), Length(32));
  EXPECT_TRUE(right);
  EXPECT_EQ(heap.GetStats().releasing_bytes, 0u);
  heap.CheckInvariants();
}

// Where no thread runs idle release, slow paths release what has become due, a slice at a time.
TEST_F(PageHeapTest, SlowPathsReleaseInAnUnattendedHeap) {
  heap_.governor()->SetReleaseRate(1);
  Span* const large = New(20000);
  New(1);
  heap_.Delete(large);
  heap_.ReleaseIdle();
  clock_ms_ += 2 * kReleaseMemoryMs;
  heap_.ReleaseIdle();
  EXPECT_EQ(vm_.release_calls(), 0u);  // another thread does it
  heap_.hints().unattended.Set(true);
  heap_.ReleaseIdle();
  EXPECT_EQ(vm_.release_calls(), 1u);
  for (int i = 0; i < 100; ++i) heap_.ReleaseIdle();
  EXPECT_LE(heap_.GetStats().free_backed_bytes, heap_.Shares().free_pages);
  EXPECT_GE(vm_.release_calls(), 20000 / kReleaseSlice.pages());
}

TEST_F(PageHeapTest, TheObserverOfFreesIsCalledForEachMebibyte) {
  static int calls;
  calls = 0;
  heap_.governor()->SetReleaseRate(1);
  heap_.hints().free_observer = [] { ++calls; };
  for (int i = 0; i < 10; ++i) heap_.Delete(New(kLookEvery.pages() / 2));
  EXPECT_EQ(calls, 5);
  heap_.hints().free_observer = nullptr;
  heap_.Delete(New(kLookEvery.pages()));
  EXPECT_EQ(calls, 5);
}

TEST_F(PageHeapTest, EagerReleasingReleasesAll) {
  heap_.governor()->SetReleasing(Releasing::kEager);
  Span* const a = New(300);
  Span* const b = New(1);
  New(1);
  heap_.Delete(a);
  EXPECT_EQ(heap_.GetStats().free_backed_bytes, 0u);
  DeleteToCache(heap_, b, under_test_.homes[0], true);
  EXPECT_EQ(heap_.GetStats().free_backed_bytes, 0u);
  EXPECT_EQ(vm_.release_calls(), 2u);
}

TEST_F(PageHeapTest, WithoutReleasingNothingIsReleased) {
  heap_.governor()->SetReleasing(Releasing::kNever);
  heap_.governor()->SetReleaseRate(1000);
  Span* const a = New(30000);
  New(1);
  heap_.Delete(a);
  clock_ms_ = 100'000;
  EXPECT_EQ(heap_.ReleaseDue(kAllPages, true), Length(0));
  clock_ms_ = 200'000;
  EXPECT_EQ(heap_.ReleaseDue(kAllPages, true), Length(0));
  EXPECT_EQ(heap_.ReleaseAtLeast(kAllPages), Length(0));
  EXPECT_EQ(vm_.release_calls(), 0u);
  EXPECT_FALSE(heap_.release_pending());
}

class PageHeapDeathTest : public PageHeapTest {
 protected:
  PageHeapDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(PageHeapDeathTest, ASecondDeleteAborts) {
  Span* const span = New(4);
  heap_.Delete(span);
  EXPECT_DEATH(heap_.Delete(span), "check failed");
}

// A system has memory for exactly two spans of 64 pages. The first one was written to and is free,
// and its memory cannot be released (mlock). It cannot serve a request for a larger alignment, so
// the heap tries to unmap it.
class PageHeapUnmapTest : public testing::Test {
 protected:
  static FakeVirtualMemory::Options OneMebibyte() {
    FakeVirtualMemory::Options options;
    options.range_bytes = kMiB;
    return options;
  }

  PageHeapUnmapTest() {
    heap_.governor()->SetReleaseRate(0);
    Span* const a = heap_.New(Length(64), SpanState::kLarge);
    heap_.New(Length(64), SpanState::kLarge);
    memset(a->start_address(), 'x', a->bytes());
    vm_.LockInMemory(a->start_address(), a->bytes());
    heap_.Delete(a);
  }

  Span* NewUnservable() { return heap_.New(Length(64), SpanState::kLarge, Length(128)); }

  PageHeapUnderTest under_test_{OneMebibyte(), {.unmap_when_short = true}};
  PageHeap& heap_ = under_test_.heap;
  FakeVirtualMemory& vm_ = under_test_.vm;
};

TEST_F(PageHeapUnmapTest, UnmappedMemoryIsMappedAnewAndNoRecordLeaks) {
  size_t after_first_rounds = 0;
  for (int round = 0; round < 200; ++round) {
    EXPECT_EQ(NewUnservable(), nullptr);
    EXPECT_EQ(heap_.GetStats().system_bytes, 64 * kPageSize);
    EXPECT_EQ(vm_.mapped_bytes(), 64 * kPageSize);
    heap_.CheckInvariants();
    Span* const again = heap_.New(Length(64), SpanState::kLarge);
    ASSERT_NE(again, nullptr);
    EXPECT_TRUE(again->zeroed());
    EXPECT_EQ(*static_cast<char*>(again->start_address()), 0);
    heap_.Delete(again);
    if (round == 10) after_first_rounds = under_test_.arena.allocated_bytes();
  }
  EXPECT_EQ(vm_.unmap_calls(), 201u) << "for the first request, then after each free";
  EXPECT_EQ(under_test_.arena.allocated_bytes(), after_first_rounds);
}

// The longer one of two free spans cannot be unmapped, like memory from sbrk.
TEST(PageHeapAddressSpaceTest, SpansThatCannotBeUnmappedAreSkipped) {
  PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(512 * kPageSize),
                               {.unmap_when_short = true});
  PageHeap& heap = under_test.heap;
  FakeVirtualMemory& vm = under_test.vm;
  heap.governor()->SetReleaseRate(0);
  // The heap takes the whole address space, in one piece.
  heap.Delete(heap.New(Length(512), SpanState::kLarge));
  Span* spans[5];
  const size_t lengths[5] = {10, 200, 10, 150, 142};
  for (size_t i = 0; i < 5; ++i) {
    spans[i] = heap.New(Length(lengths[i]), SpanState::kLarge);
    ASSERT_NE(spans[i], nullptr);
  }
  const PageId longer = spans[1]->first_page;
  heap.Delete(spans[1]);
  heap.Delete(spans[3]);
  vm.FailUnmap(1);
  EXPECT_EQ(heap.New(Length(300), SpanState::kLarge), nullptr);
  EXPECT_EQ(vm.unmap_failures(), 1u);
  EXPECT_EQ(vm.unmap_calls(), 2u);
  heap.CheckInvariants();
  EXPECT_EQ(heap.GetStats().system_bytes, (512 - 150) * kPageSize);
  EXPECT_EQ(vm.mapped_bytes(), (512 - 150) * kPageSize);
  Span* const again = heap.New(Length(200), SpanState::kLarge);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->first_page, longer);
  heap.CheckInvariants();
}

TEST(PageHeapAddressSpaceTest, ARequestForMoreThanTheHeapEverHadShowsNoShortage) {
  PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(512 * kPageSize),
                               {.unmap_when_short = true});
  PageHeap& heap = under_test.heap;
  const PageHints& hints = heap.hints();
  EXPECT_EQ(heap.New(Length(1000), SpanState::kLarge), nullptr);
  EXPECT_FALSE(hints.address_space_is_short.value());
  Span* const most = heap.New(Length(400), SpanState::kLarge);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(heap.New(Length(1000), SpanState::kLarge), nullptr);
  EXPECT_EQ(heap.New(SpanStore::kMaxLength, SpanState::kLarge), nullptr);
  EXPECT_EQ(heap.New(Length(1), SpanState::kLarge, Length(1 << 20)), nullptr);
  EXPECT_FALSE(hints.address_space_is_short.value());
  EXPECT_EQ(under_test.vm.unmap_calls(), 0u);
  // The heap could serve as much if it unmapped free memory.
  EXPECT_EQ(heap.New(Length(300), SpanState::kLarge), nullptr);
  EXPECT_TRUE(hints.address_space_is_short.value());
  heap.Delete(most);
}

// A small address space is used at random, free memory is often unmapped, and the OS sometimes
// refuses. No byte is in two spans, none leaks, and zeroed() tells the truth.
TEST(PageHeapAddressSpaceTest, RandomUseWhereAddressSpaceIsShort) {
  for (uint64_t seed = 20; seed < 24; ++seed) {
    SeededRandom random(seed);
    FakeVirtualMemory::Options options;
    options.range_bytes = 40 * kMiB;
    options.hardware_page_size = seed % 2 == 0 ? 4096 : 65536;
    PageHeapUnderTest under_test(options, {.unmap_when_short = true});
    PageHeap& heap = under_test.heap;
    struct Mine {
      Span* span;
      uint64_t mark;
    };
    std::vector<Mine> live;
    // Calls f for the first word of each page.
    const auto for_each_word = [](const Mine& mine, const auto& f) {
      char* const start = static_cast<char*>(mine.span->start_address());
      for (size_t at = 0; at < mine.span->bytes(); at += kPageSize) {
        f(*reinterpret_cast<uint64_t*>(start + at));
      }
    };
    const auto delete_one = [&] {
      std::swap(live[random.Below(live.size())], live.back());
      const Mine mine = live.back();
      size_t overwritten = 0;
      for_each_word(mine, [&](uint64_t& word) { overwritten += word != mine.mark; });
      EXPECT_EQ(overwritten, 0u);
      live.pop_back();
      heap.Delete(mine.span);
    };
    size_t metadata_bytes = 0;
    for (int step = 0; step < 6000 && !testing::Test::HasFailure(); ++step) {
      if (random.OneIn(50)) under_test.vm.FailUnmap(random.Between(1, 4), random.Between(1, 3));
      if (random.OneIn(50)) under_test.vm.FailRelease(random.Between(1, 4), random.Between(1, 3));
      if (random.OneIn(2000)) {
        size_t bytes = random.Between(1, 100'000);
        if (heap.TakeForMetadata(&bytes) != nullptr) metadata_bytes += bytes;
      }
      // At times most of the memory is in use, at times most of it is free.
      if (random.Below(100) < (step / 500 % 2 == 0 ? 70u : 25u)) {
        const Length n(random.OneIn(10) ? random.Between(1, 1500) : random.Between(1, 100));
        const Length alignment(random.OneIn(8) ? 64 : 1);
        const Mine mine{heap.New(n, SpanState::kLarge, alignment), random.Next()};
        if (mine.span == nullptr) continue;
        if (mine.span->zeroed()) {
          size_t written = 0;
          for_each_word(mine, [&](uint64_t& word) { written += word != 0; });
          ASSERT_EQ(written, 0u) << "not zeroed";
        }
        for_each_word(mine, [&](uint64_t& word) { word = mine.mark; });
        live.push_back(mine);
      } else if (!live.empty()) {
        delete_one();
      }
      if (step % 20 == 0) {
        heap.CheckInvariants();
        const PageStats stats = heap.GetStats();
        ASSERT_EQ(stats.system_bytes, under_test.vm.mapped_bytes());
        ASSERT_EQ(stats.metadata_span_bytes, metadata_bytes);
        ASSERT_EQ(stats.free_backed_bytes + stats.free_released_bytes + stats.large_span_bytes +
                      stats.metadata_span_bytes,
                  stats.system_bytes);
      }
    }
    EXPECT_GT(under_test.vm.unmap_calls(), 20u);
    EXPECT_GT(under_test.vm.unmap_failures(), 0u);
    while (!live.empty()) delete_one();
    heap.CheckInvariants();
  }
}

}  // namespace
}  // namespace tcmalloc
