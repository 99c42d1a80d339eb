// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/page_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "page_heap/release_policy.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/heap_fixture.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

using PageHeapTest = PageHeapFixture;

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
    heap.store()->CheckInvariants();
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
    heap.store()->CheckInvariants();
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
  vm_.LockInMemory(reinterpret_cast<void*>(vm_.base()), SIZE_MAX / 4);
  for (Span* const span : spans) heap_.Delete(span);
  heap_.governor()->SetReleaseRate(1);
  clock_ms_ = 100'000;
  EXPECT_EQ(heap_.ReleaseDue(kAllPages), Length(0));
  clock_ms_ = 200'000;
  EXPECT_EQ(heap_.ReleaseDue(kAllPages), Length(0));
  EXPECT_GT(vm_.release_calls(), 0u);
  EXPECT_LE(vm_.release_calls(), 64u);
  heap_.store()->CheckInvariants();
  // A requested release tries all of it.
  EXPECT_EQ(heap_.ReleaseAtLeast(kAllPages), Length(0));
  EXPECT_GE(vm_.release_calls(), 1000u);
  heap_.store()->CheckInvariants();
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
      heap.store()->CheckInvariants();
      heap.Delete(a);
      heap.Delete(c);
      heap.store()->CheckInvariants();
      EXPECT_EQ(heap.GetStats().free_backed_spans, 2u);
      // No page that is being released may be handed out.
      EXPECT_EQ(heap.New(Length(33), SpanState::kLarge), nullptr);
      Span* const again = heap.New(Length(32), SpanState::kLarge);
      ASSERT_NE(again, nullptr);
      heap.store()->CheckInvariants();
      heap.Delete(again);
      EXPECT_FALSE(heap.DeleteLargeAt(b, b->start_address()));
      if (!released) under_test.vm.FailRelease(1);
    });
    // If the OS refuses b, the pass continues with the adjacent spans.
    EXPECT_EQ(heap.ReleaseAtLeast(Length(64)), Length(64));
    heap.store()->CheckInvariants();
    EXPECT_EQ(heap.GetStats().releasing_bytes, 0u);
    EXPECT_EQ(heap.GetStats().free_released_bytes + heap.GetStats().free_backed_bytes, kMiB);
    EXPECT_EQ(heap.ReleaseAtLeast(kAllPages), Length(64));
    EXPECT_EQ(heap.GetStats().free_released_spans, 1u);
    EXPECT_TRUE(heap.New(Length(128), SpanState::kLarge)->zeroed());
  }
}

TEST_F(PageHeapTest, GrowthIsProportionalToTheHeapWithinBounds) {
  const auto growth_for = [this](Length n) {
    const size_t before = heap_.GetStats().system_bytes;
    New(n.pages());
    return Length::ForBytes(heap_.GetStats().system_bytes - before);
  };
  EXPECT_EQ(growth_for(Length(1)), kMinGrowth);
  EXPECT_EQ(growth_for(MiB(79)), MiB(79));
  EXPECT_EQ(growth_for(MiB(2)), MiB(80 / kGrowthPart));
  constexpr Length kMuch(kMaxGrowth.pages() * kGrowthPart);
  EXPECT_EQ(growth_for(kMuch), kMuch);
  EXPECT_EQ(growth_for(MiB(20)), kMaxGrowth);
}

TEST_F(PageHeapTest, MetadataTakesAWholeSpanWhereRecordsAreShort) {
  Span* const span = New(500);
  under_test_.metadata_vm.FailMap(1, FakeVirtualMemory::kForever);
  while (under_test_.arena.Allocate(8) != nullptr) {
  }
  while (heap_.New(Length(1), SpanState::kLarge) != nullptr) {
  }
  heap_.Delete(span);
  // Each call takes a part of a span, until there is no record for the rest of it.
  size_t bytes = kPageSize;
  while (bytes == kPageSize) ASSERT_NE(heap_.TakeForMetadata(&bytes), nullptr);
  EXPECT_GT(bytes, kPageSize);
}

using PageHeapMemoryTest = PageHeapFixture;

// Memory that is not known to be zero-filled never counts as zero-filled: neither when it is new
// nor when it was released.
TEST_F(PageHeapMemoryTest, MemoryThatIsNotZeroFilledNeverCountsAsZeroFilled) {
  vm_.SetZeroFilled(false);
  Span* const span = New(100);
  EXPECT_FALSE(span->zeroed());
  // The memory may be backed from the beginning.
  EXPECT_EQ(heap_.GetStats().free_backed_bytes, kMiB - span->bytes());
  EXPECT_EQ(heap_.GetStats().free_released_bytes, 0u);
  heap_.Delete(span);
  heap_.ReleaseAtLeast(kAllPages);
  EXPECT_EQ(heap_.GetStats().free_released_bytes, kMiB);
  heap_.store()->CheckInvariants();
  // Cuts the free span at the front, in the middle and at the end.
  EXPECT_FALSE(New(1)->zeroed());
  EXPECT_FALSE(heap_.New(Length(1), SpanState::kLarge, Length(16))->zeroed());
  EXPECT_FALSE(heap_.New(Length(30), SpanState::kSmall)->zeroed());
  // Metadata must not lie in this memory, because a forked child may share it.
  size_t bytes = kPageSize;
  EXPECT_EQ(heap_.TakeForMetadata(&bytes), nullptr);
}

// Adjacent spans of both kinds are merged. The whole then does not count as zero-filled, and
// neither do its parts.
TEST(PageHeapJoinTest, JoinedMemoryIsZeroFilledWhenAllOfItIs) {
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
    heap.store()->CheckInvariants();
  }
}

TEST_F(PageHeapMemoryTest, AnObjectThatGrewIntoOtherMemoryIsNotZeroFilled) {
  const size_t pages = MiB(1).pages();
  Span* const first = New(pages);
  vm_.SetZeroFilled(false);
  heap_.Delete(New(pages));
  ASSERT_TRUE(heap_.ResizeLargeAt(first, first->start_address(), MiB(2)));
  heap_.Delete(first);
  heap_.ReleaseAtLeast(kAllPages);
  EXPECT_FALSE(New(2 * pages)->zeroed());
}

// Sources of memory with large units return more than requested.
TEST_F(PageHeapMemoryTest, UsesTheWholeMapping) {
  vm_.SetMore(kMiB + 3 * kPageSize + 4096);
  New(1);
  EXPECT_EQ(heap_.GetStats().system_bytes, 2 * kMiB + 3 * kPageSize);
  EXPECT_NE(heap_.New(Length::ForBytes(2 * kMiB) + Length(2), SpanState::kLarge), nullptr);
  EXPECT_EQ(vm_.map_calls(), 1u);
}

// Growth in advance stops at the known limit of the source, so that the limit can be reached
// exactly.
TEST_F(PageHeapMemoryTest, GrowsOnlyByTheRoomOfTheSource) {
  vm_.SetRoom(5 * kPageSize);
  New(2);
  EXPECT_EQ(heap_.GetStats().system_bytes, 5 * kPageSize);
  vm_.SetRoom(0);
  // Beyond that limit the heap grows by the needed length, and the OS may refuse.
  New(7);
  EXPECT_EQ(heap_.GetStats().system_bytes, 12 * kPageSize);
  // If the rest of the source is too short, another source serves the request, with the usual
  // growth.
  vm_.SetRoom(4096);
  New(7);
  EXPECT_EQ(heap_.GetStats().system_bytes, 12 * kPageSize + kMiB);
}

// When the heap grows past a multiple of 4 GiB, the page map needs another leaf. The leaf must not
// lie between the heap's mappings, which then could not become one free span.
TEST(PageHeapAddressSpaceTest, GrowthGoesOnPastTheEndOfALeaf) {
  if (sizeof(void*) == 4) GTEST_SKIP() << "SKIP: there is one mapping of leaves on 32 bits";
  SystemVirtualMemory vm;
  MappedPageMap map;
  MetadataArena arena(vm);
  PageHeap heap(vm, *map, arena);
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
  const auto leaf_of = [](const Span* span) {
    return span->first_page.index() / PageMap::kLeafPages;
  };
  size_t pieces = 1;
  bool past_a_leaf = false;
  for (size_t i = 1; i < kNumSpans; ++i) {
    const bool joins = spans[i]->first_page == spans[i - 1]->end();
    pieces += !joins;
    past_a_leaf |= joins && leaf_of(spans[i - 1]) != leaf_of(spans[i]);
  }
  EXPECT_TRUE(past_a_leaf);
  for (Span* const span : spans) heap.Delete(span);
  heap.ReleaseAtLeast(Length(SIZE_MAX));
  EXPECT_EQ(heap.GetStats().free_released_spans, pieces);
  heap.store()->CheckInvariants();
}

// Pages may be larger than hardware pages: every byte of a heap is in its mappings.
TEST(PageHeapAddressSpaceTest, MappingsAreWholePages) {
  MappedPageMap map;
  SystemVirtualMemory vm;
  MetadataArena arena(vm);
  for (int i = 0; i < 32; ++i) {
    PageHeap heap(vm, *map, arena);
    // Makes mappings start at any hardware page.
    ASSERT_NE(mmap(nullptr, kHardwarePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
              MAP_FAILED);
    Span* const span = heap.New(Length::ForBytes(kMiB), SpanState::kLarge);
    ASSERT_NE(span, nullptr);
    memset(span->start_address(), 'x', span->bytes());
  }
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
    heap.store()->CheckInvariants();
    EXPECT_EQ(heap.GetStats().system_bytes, 2 * kMiB);
    EXPECT_TRUE(inner->last_page() < outer->first_page || outer->last_page() < inner->first_page);
    heap.Delete(inner);
    heap.Delete(outer);
    EXPECT_EQ(heap.ReleaseAtLeast(kAllPages), Length(200));
    EXPECT_EQ(heap.GetStats().free_released_spans, 1u);
    heap.store()->CheckInvariants();
  }
}

class PageHeapForkTest : public PageHeapFixture {
 protected:
  PageHeapForkTest() : PageHeapFixture(FakeVirtualMemory::AddressOnly(kMiB)) {}

  // Forks as another thread of the process does. In the child, `check` returns whether the heap is
  // right. Returns true if it was.
  bool ForkInAnotherThread(const std::function<bool()>& check) {
    int status = -1;
    std::thread([&] {
      heap_.lock().HoldForFork();
      const pid_t child = fork();
      if (child == 0) {
        heap_.address_space().RestoreAfterForkInChild();
        heap_.lock().ResetAfterForkInChild();
        heap_.store()->CheckInvariants();
        _exit(heap_.GetStats().releasing_bytes == 0 && check() ? 0 : 1);
      }
      heap_.lock().ReleaseAfterForkInParent();
      waitpid(child, &status, 0);
    }).join();
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
};

// The process forks in the middle of a release. In the child, the heap has the pages again and
// works.
TEST_F(PageHeapForkTest, PagesThatWereBeingReleasedAreFreeInTheChild) {
  Span* const a = New(32);
  Span* const b = New(64);
  New(32);
  heap_.Delete(b);
  bool right = false;
  vm_.OnNextRelease([&] {
    right = ForkInAnotherThread([&] {
      if (heap_.GetStats().free_backed_bytes != 64 * kPageSize) return false;
      heap_.Delete(a);
      if (heap_.GetStats().free_backed_spans != 1) return false;
      Span* const span = New(96);
      if (span->zeroed()) return false;
      heap_.Delete(span);
      if (heap_.ReleaseAtLeast(kAllPages) != Length(96)) return false;
      heap_.store()->CheckInvariants();
      return true;
    });
  });
  EXPECT_EQ(heap_.ReleaseAtLeast(kAllPages), Length(64));
  EXPECT_TRUE(right);
  EXPECT_TRUE(New(64)->zeroed());
  heap_.store()->CheckInvariants();
}

// A signal handler that interrupted the release forks. The release continues in the child, too.
TEST_F(PageHeapForkTest, AReleaseOfTheForkingThreadContinuesInTheChild) {
  heap_.Delete(New(64));
  pid_t child = -1;
  vm_.OnNextRelease([&] {
    heap_.lock().HoldForFork();
    child = fork();
    if (child == 0) heap_.address_space().RestoreAfterForkInChild();
    heap_.lock().ResetAfterForkInChild();
  });
  const Length released = heap_.ReleaseAtLeast(kAllPages);
  heap_.store()->CheckInvariants();
  const bool right = released >= Length(64) && heap_.GetStats().releasing_bytes == 0;
  if (child == 0) _exit(right ? 0 : 1);
  EXPECT_TRUE(right);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// As above, with spans that the OS refused to release and that are set aside until the end of the
// pass.
TEST_F(PageHeapForkTest, RefusedSpansAreFreeInTheChild) {
  Span* const a = New(64);
  New(1);
  Span* const b = New(32);
  New(31);
  vm_.LockInMemory(a->start_address(), 1);
  heap_.Delete(a);
  heap_.Delete(b);
  bool right = false;
  const auto fork_now = [&] {
    EXPECT_EQ(vm_.release_failures(), 1u);
    right =
        ForkInAnotherThread([&] { return heap_.GetStats().free_backed_bytes == 96 * kPageSize; });
  };
  vm_.OnNextRelease([&] { vm_.OnNextRelease(fork_now); });
  EXPECT_EQ(heap_.ReleaseAtLeast(kAllPages), Length(32));
  EXPECT_TRUE(right);
  EXPECT_EQ(heap_.GetStats().releasing_bytes, 0u);
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
  Keep(b, 0);
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
  EXPECT_EQ(heap_.ReleaseDue(kAllPages), Length(0));
  clock_ms_ = 200'000;
  EXPECT_EQ(heap_.ReleaseDue(kAllPages), Length(0));
  EXPECT_EQ(heap_.ReleaseAtLeast(kAllPages), Length(0));
  EXPECT_EQ(vm_.release_calls(), 0u);
  EXPECT_FALSE(IsReleasePending(heap_));
}

using PageHeapDeathTest = PageHeapFixture;

TEST_F(PageHeapDeathTest, ASecondDeleteAborts) {
  Span* const span = New(4);
  heap_.Delete(span);
  EXPECT_DEATH(heap_.Delete(span), "check failed");
}

// A system with room for 512 pages.
class PageHeapUnmapTest : public PageHeapFixture {
 protected:
  PageHeapUnmapTest()
      : PageHeapFixture(FakeVirtualMemory::AddressOnly(512 * kPageSize),
                        {.unmap_when_short = true}) {}
};

// The first of two spans is free, and its memory cannot be released (mlock). It cannot serve a
// request for a larger alignment, so the heap tries to unmap it.
TEST_F(PageHeapUnmapTest, UnmappedMemoryIsMappedAnewAndNoRecordLeaks) {
  Span* const a = New(256);
  New(256);
  vm_.LockInMemory(a->start_address(), a->bytes());
  heap_.Delete(a);
  size_t after_first_rounds = 0;
  for (int round = 0; round < 200; ++round) {
    EXPECT_EQ(heap_.New(Length(256), SpanState::kLarge, Length(512)), nullptr);
    EXPECT_EQ(heap_.GetStats().system_bytes, 256 * kPageSize);
    EXPECT_EQ(vm_.mapped_bytes(), 256 * kPageSize);
    heap_.store()->CheckInvariants();
    Span* const again = New(256);
    EXPECT_TRUE(again->zeroed());
    heap_.Delete(again);
    if (round == 10) after_first_rounds = under_test_.arena.allocated_bytes();
  }
  EXPECT_EQ(vm_.unmap_calls(), 200u) << "one in each round";
  EXPECT_EQ(under_test_.arena.allocated_bytes(), after_first_rounds);
}

// The longer one of two free spans cannot be unmapped, like memory from sbrk.
TEST_F(PageHeapUnmapTest, SpansThatCannotBeUnmappedAreSkipped) {
  // The heap takes the whole address space, in one piece.
  heap_.Delete(New(512));
  std::vector<Span*> spans;
  for (const size_t pages : {10, 200, 10, 150, 142}) spans.push_back(New(pages));
  const PageId longer = spans[1]->first_page;
  heap_.Delete(spans[1]);
  heap_.Delete(spans[3]);
  vm_.FailUnmap(1);
  EXPECT_EQ(heap_.New(Length(300), SpanState::kLarge), nullptr);
  EXPECT_EQ(vm_.unmap_failures(), 1u);
  EXPECT_EQ(vm_.unmap_calls(), 2u);
  heap_.store()->CheckInvariants();
  EXPECT_EQ(heap_.GetStats().system_bytes, (512 - 150) * kPageSize);
  EXPECT_EQ(vm_.mapped_bytes(), (512 - 150) * kPageSize);
  EXPECT_EQ(New(200)->first_page, longer);
}

TEST_F(PageHeapUnmapTest, ARequestForMoreThanTheHeapEverHadShowsNoShortage) {
  const PageHints& hints = heap_.hints();
  EXPECT_EQ(heap_.New(Length(1000), SpanState::kLarge), nullptr);
  EXPECT_EQ(hints.shortage.value(), AddressSpaceShortage::kNone);
  Span* const most = New(400);
  EXPECT_EQ(heap_.New(Length(1000), SpanState::kLarge), nullptr);
  EXPECT_EQ(heap_.New(SpanStore::kMaxLength, SpanState::kLarge), nullptr);
  EXPECT_EQ(heap_.New(Length(1), SpanState::kLarge, Length(1 << 20)), nullptr);
  EXPECT_EQ(hints.shortage.value(), AddressSpaceShortage::kNone);
  EXPECT_EQ(vm_.unmap_calls(), 0u);
  // The heap could serve as much if it unmapped free memory.
  EXPECT_EQ(heap_.New(Length(300), SpanState::kLarge), nullptr);
  EXPECT_EQ(hints.shortage.value(), AddressSpaceShortage::kNow);
  heap_.Delete(most);
}

TEST_F(PageHeapUnmapTest, AShortageEndsOnceTheHeapHasGivenMemoryBack) {
  const PageHints& hints = heap_.hints();
  Span* const most = New(400);
  Span* const other = New(100);
  EXPECT_EQ(heap_.New(Length(300), SpanState::kLarge), nullptr);
  clock_ms_ += kReleaseMemoryMs;
  heap_.Delete(other);
  EXPECT_EQ(hints.shortage.value(), AddressSpaceShortage::kNow);
  ++clock_ms_;
  heap_.Delete(New(100));
  EXPECT_EQ(hints.shortage.value(), AddressSpaceShortage::kEarlier) << "little of it is free";
  heap_.Delete(most);
  for (const auto shortage : {AddressSpaceShortage::kNow, AddressSpaceShortage::kNone}) {
    EXPECT_LT(vm_.mapped_bytes(), 400 * kPageSize);
    EXPECT_EQ(hints.shortage.value(), AddressSpaceShortage::kNow);
    clock_ms_ += kReleaseMemoryMs;
    heap_.Delete(New(400));
    EXPECT_EQ(hints.shortage.value(), shortage);
    ++clock_ms_;
  }
  heap_.Delete(New(400));
  EXPECT_GE(vm_.mapped_bytes(), 400 * kPageSize) << "not unmapped again";
}

}  // namespace
}  // namespace tcmalloc
