// SPDX-License-Identifier: BSD-3-Clause
// Tests page heaps with memory limits. Metadata comes from another fake OS than the pages. Metadata
// counts, too, so limits are set relative to the heap's size.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "page_heap/metadata_arena.h"
#include "page_heap/page_heap.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/kept_spans.h"
#include "testing/random.h"
#include "testing/run_threads.h"
#include "testing/sizes.h"
#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

class PageHeapLimitsTest : public PageHeapFixture {
 protected:
  PageHeapLimitsTest() {
    // The first memory for records is mapped before the limits are set.
    heap_.Delete(New(Length(1)));
    heap_.ReleaseAtLeast(Length(1));
  }

  Span* New(Length n) { return heap_.New(n, SpanState::kLarge); }
  // Sets a limit of `more_bytes` above the heap's size.
  void Limit(LimitKind kind, size_t more_bytes) {
    SetLimit(heap_, kind, heap_.GetStats().backed_bytes + more_bytes);
  }
  // There is a hard limit, up to which 8 MiB are free.
  void ReachTheHardLimit() {
    Limit(LimitKind::kHard, 32 * kMiB);
    Span* const freed = New(MiB(8));
    ASSERT_NE(New(MiB(24)), nullptr);
    heap_.Delete(freed);
  }
  LimitWatch::Counts Counts(LimitKind kind) {
    const PageStats stats = heap_.GetStats();
    return kind == LimitKind::kHard ? stats.hard_limit : stats.soft_limit;
  }
};

// Memory of files, of devices and of the program's own allocator is not zero-filled. It counts as
// backed at once, and its source has more than the limit allows.
TEST_F(PageHeapLimitsTest, GrowthInAdvanceKeepsToTheHardLimit) {
  vm_.SetZeroFilled(false);
  ASSERT_NE(New(MiB(256)), nullptr);
  Limit(LimitKind::kHard, 3 * kMiB);
  const size_t limit = LimitOf(heap_, LimitKind::kHard);
  size_t got = 0;
  for (int i = 0; i < 20; ++i) got += New(MiB(1)) != nullptr;
  EXPECT_EQ(got, 3u);
  EXPECT_LE(heap_.GetStats().backed_bytes, limit);
}

// When the first page of a hugepage is used, the whole hugepage is backed.
TEST_F(PageHeapLimitsTest, WholeHugepagesKeepToTheHardLimit) {
  heap_.governor()->SetHugepages({HugepageMode::kAdvise});
  // A heap of this size asks for hugepages.
  ASSERT_NE(New(MiB(40)), nullptr);
  Span* const span = New(MiB(64));
  ASSERT_NE(span, nullptr);
  ASSERT_GT(heap_.GetStats().hugepage_bytes, 0u);
  heap_.Delete(span);
  heap_.ReleaseAtLeast(MiB(64));
  Limit(LimitKind::kHard, 7 * kMiB + kMiB / 2);
  const size_t limit = LimitOf(heap_, LimitKind::kHard);
  size_t got = 0;
  while (New(Length(8)) != nullptr) {
    ++got;
    ASSERT_LE(heap_.GetStats().backed_bytes, limit) << got;
  }
  EXPECT_GE(got, 6 * kMiB / Length(8).bytes());
}

TEST_F(PageHeapLimitsTest, TheHardLimitIsReachedAndNotExceeded) {
  Limit(LimitKind::kHard, 100 * kMiB);
  std::vector<Span*> spans;
  while (Span* const span = New(MiB(7))) spans.push_back(span);
  EXPECT_EQ(spans.size(), 14u);
  EXPECT_EQ(New(MiB(3)), nullptr);
  spans.push_back(New(MiB(2)));
  ASSERT_NE(spans.back(), nullptr);
  EXPECT_EQ(New(Length(1)), nullptr);
  EXPECT_EQ(heap_.GetStats().backed_bytes, LimitOf(heap_, LimitKind::kHard));
  // Freed memory can be allocated again, also in other lengths.
  heap_.Delete(spans.back());
  spans.back() = New(MiB(1));
  EXPECT_NE(spans.back(), nullptr);
  spans.push_back(New(Length(1)));
  EXPECT_NE(spans.back(), nullptr);
  for (Span* const span : spans) heap_.Delete(span);
}

// Free memory in pieces that are too short is released, and the same number of bytes is taken
// elsewhere. Then no more memory is available under a hard limit, and a soft limit is exceeded.
TEST_F(PageHeapLimitsTest, FreeMemoryOfTheWrongLengthIsReleasedFirst) {
  for (const LimitKind kind : {LimitKind::kHard, LimitKind::kSoft}) {
    Limit(kind, 64 * kMiB);
    const size_t limit = LimitOf(heap_, kind);
    std::vector<Span*> spans;
    for (int i = 0; i < 64; ++i) spans.push_back(New(MiB(1)));
    EXPECT_EQ(Counts(kind).hits, 0u);
    for (size_t i = 0; i < 64; i += 2) heap_.Delete(std::exchange(spans[i], nullptr));
    EXPECT_EQ(heap_.GetStats().free_backed_bytes, 32 * kMiB);
    ASSERT_NE(New(MiB(8)), nullptr);
    EXPECT_LE(heap_.GetStats().backed_bytes, limit);
    // No more is released than needed, plus the slack.
    EXPECT_EQ(Counts(kind).hits, 1u);
    const size_t wanted = Length::ForBytes(8 * kMiB + LimitSlack(limit)).bytes();
    EXPECT_EQ(Counts(kind).released_bytes, wanted);
    EXPECT_EQ(heap_.GetStats().free_backed_bytes, 32 * kMiB - wanted);
    // Because of the slack, the next allocation needs no system call.
    const size_t releases = vm_.release_calls();
    ASSERT_NE(New(MiB(1)), nullptr);
    EXPECT_EQ(vm_.release_calls(), releases);
    EXPECT_EQ(New(MiB(100)) != nullptr, kind == LimitKind::kSoft);
    heap_.store()->CheckInvariants();
    SetLimit(heap_, kind, kNoLimit);
    heap_.ReleaseAtLeast(kAllPages);
  }
}

TEST_F(PageHeapLimitsTest, KeptSpansAreReleasedFirst) {
  Limit(LimitKind::kHard, 64 * kMiB);
  std::vector<Span*> spans;
  while (Span* const span = heap_.NewNear(Length(8), under_test_.homes[3])) spans.push_back(span);
  EXPECT_GE(spans.size(), 1000u);
  for (Span* const span : spans) Keep(span, 3);
  EXPECT_GT(heap_.GetStats().kept_span_bytes, 0u);
  EXPECT_NE(New(Length(8 * spans.size())), nullptr);
  EXPECT_EQ(heap_.GetStats().kept_span_bytes, 0u);
  heap_.store()->CheckInvariants();
}

TEST_F(PageHeapLimitsTest, ARequestThatNeverFitsReleasesNothing) {
  Limit(LimitKind::kHard, 64 * kMiB);
  heap_.Delete(New(MiB(32)));
  const size_t releases = vm_.release_calls();
  const size_t maps = vm_.map_calls();
  EXPECT_EQ(New(MiB(1000)), nullptr);
  EXPECT_EQ(vm_.release_calls(), releases);
  EXPECT_EQ(vm_.map_calls(), maps);
  EXPECT_EQ(heap_.hints().hard_limit_refusals.value(), 1u);
  EXPECT_FALSE(MayFitAfterFlush(heap_, MiB(1000)));
  EXPECT_TRUE(MayFitAfterFlush(heap_, MiB(60)));
}

// A limit does not refuse the record of a span that is cut for its release.
TEST_F(PageHeapLimitsTest, RecordsAreNotRefused) {
  Limit(LimitKind::kHard, 40 * kMiB);
  std::vector<Span*> spans;
  while (Span* const span = New(Length(1))) spans.push_back(span);
  // There are as many spans as pages, and their records are memory, too.
  EXPECT_GT(under_test_.arena.mapped_bytes(), 64 * spans.size());
  // The last records may have been added when the limit was reached.
  EXPECT_LE(heap_.GetStats().backed_bytes, LimitOf(heap_, LimitKind::kHard) + kArenaChunkBytes);
  for (size_t i = 0; i < spans.size(); i += 2) heap_.Delete(spans[i]);
  EXPECT_NE(New(MiB(10)), nullptr);
}

// A release by another thread, which the test can hold up in the system call.
class HeldUpRelease {
 public:
  HeldUpRelease(PageHeap& heap, FakeVirtualMemory& vm, Length n) {
    vm.OnNextRelease([this] {
      in_system_.store(true);
      while (!may_go_on_.load()) std::this_thread::yield();
      if (const pid_t sleeper = sleeper_.load(); sleeper != 0) WaitUntilAsleep(sleeper);
    });
    thread_ = std::thread([&heap, n] { heap.ReleaseAtLeast(n); });
    while (!in_system_.load()) std::this_thread::yield();
  }
  ~HeldUpRelease() { Join(); }

  void GoOn() { may_go_on_.store(true); }
  // The release continues when this thread sleeps.
  void GoOnWhenThisThreadSleeps() {
    sleeper_.store(ThisThreadId());
    GoOn();
  }
  void Join() {
    GoOn();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> in_system_{false};
  std::atomic<bool> may_go_on_{false};
  std::atomic<pid_t> sleeper_{0};
  std::thread thread_;
};

// A free of another thread is in a system call when these threads request memory: they wait for it,
// no matter how long that thread does not run.
TEST_F(PageHeapLimitsTest, ManyThreadsWaitForOneRelease) {
  ReachTheHardLimit();
  HeldUpRelease other(heap_, vm_, MiB(8));
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.push_back(StartUntilAsleep([&] { served += New(MiB(1)) != nullptr ? 1 : 0; }));
  }
  other.GoOn();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 8);
}

// The other release ends after this thread decided that it needs room and before it checks for
// releases under way. Here that happens while this thread makes a system call of its own, which is
// refused.
TEST_F(PageHeapLimitsTest, ReleasesThatEndedMeanwhileCount) {
  Limit(LimitKind::kHard, 32 * kMiB);
  Span* const first = New(MiB(8));
  ASSERT_NE(New(MiB(20)), nullptr);
  Span* const second = New(MiB(4));
  ASSERT_NE(second, nullptr);
  heap_.Delete(first);
  HeldUpRelease other(heap_, vm_, MiB(8));
  heap_.Delete(second);
  vm_.OnNextRelease([&] {
    other.Join();
    vm_.FailRelease(1);
  });
  EXPECT_NE(New(MiB(6)), nullptr);
  EXPECT_EQ(vm_.release_failures(), 1u);
}

// A release that the OS refuses makes no room, no matter which thread made it.
TEST_F(PageHeapLimitsTest, RefusedReleasesOfOtherThreadsMakeNoRoom) {
  ReachTheHardLimit();
  vm_.FailRelease(1, FakeVirtualMemory::kForever);
  {
    HeldUpRelease other(heap_, vm_, MiB(8));
    other.GoOnWhenThisThreadSleeps();
    EXPECT_EQ(New(MiB(10)), nullptr);
  }
  // The refused passes of these threads always overlap.
  std::atomic<int> served{0};
  RunThreads(8, [&](size_t) {
    for (int round = 0; round < 50; ++round) served += New(MiB(10)) != nullptr ? 1 : 0;
  });
  EXPECT_EQ(served, 0);
  heap_.store()->CheckInvariants();
}

// When nothing is left to release, a thread waits only for releases that have begun already.
// Otherwise threads whose releases are refused again and again could wait for each other forever.
TEST_F(PageHeapLimitsTest, WaitsOnlyForReleasesUnderWay) {
  Limit(LimitKind::kHard, 32 * kMiB);
  Span* const later = New(MiB(8));
  Span* const freed = New(MiB(8));
  ASSERT_NE(New(MiB(16)), nullptr);
  heap_.Delete(freed);
  HeldUpRelease first(heap_, vm_, MiB(8));
  std::atomic<bool> served{true};
  std::thread waiter = StartUntilAsleep([&] { served = New(MiB(6)) != nullptr; });
  heap_.Delete(later);
  HeldUpRelease second(heap_, vm_, MiB(8));
  vm_.FailRelease(1);
  first.Join();
  // The second release cannot end before the waiter does.
  waiter.join();
  EXPECT_FALSE(served);
}

// A fork handler of another library allocates while all locks are held for fork: the release that
// is under way cannot end before the fork does.
TEST_F(PageHeapLimitsTest, AForkingThreadDoesNotWait) {
  ReachTheHardLimit();
  HeldUpRelease other(heap_, vm_, MiB(8));
  SpinLock::BeginForkHold();
  heap_.lock().HoldForFork();
  other.GoOn();
  EXPECT_EQ(New(MiB(6)), nullptr);
  SpinLock::EndForkHold();
  heap_.lock().ReleaseAfterForkInParent();
  other.Join();
  EXPECT_NE(New(MiB(6)), nullptr);
}

TEST_F(PageHeapLimitsTest, AboveTheSoftLimitFreedMemoryIsReleased) {
  Limit(LimitKind::kSoft, 64 * kMiB);
  std::vector<Span*> spans;
  for (int i = 0; i < 2000; ++i) spans.push_back(New(Length(16)));
  ASSERT_GT(heap_.GetStats().backed_bytes, LimitOf(heap_, LimitKind::kSoft));
  const size_t calls = vm_.release_calls();
  size_t most_free = 0;
  while (heap_.GetStats().backed_bytes > LimitOf(heap_, LimitKind::kSoft)) {
    ASSERT_FALSE(spans.empty());
    heap_.Delete(spans.back());
    spans.pop_back();
    most_free = std::max(most_free, heap_.GetStats().free_backed_bytes);
  }
  // Never more than the slack stays free, with fewer system calls than the thousand frees.
  EXPECT_LE(most_free, kMiB + Length(16).bytes());
  EXPECT_LE(vm_.release_calls() - calls, 200u);
  EXPECT_GT(Counts(LimitKind::kSoft).released_bytes, 150 * kMiB);
  // Below the limit, memory is kept.
  const size_t released = Counts(LimitKind::kSoft).released_bytes;
  for (Span* const span : spans) heap_.Delete(span);
  EXPECT_EQ(Counts(LimitKind::kSoft).released_bytes, released);
  EXPECT_GT(heap_.GetStats().free_backed_bytes, 60 * kMiB);
  heap_.store()->CheckInvariants();
}

// Otherwise each free would make a system call.
TEST_F(PageHeapLimitsTest, MemoryThatTheOsKeepsIsTriedAgainWhenTheHeapGrows) {
  Limit(LimitKind::kSoft, 64 * kMiB);
  std::vector<Span*> spans;
  for (int i = 0; i < 100; ++i) spans.push_back(New(MiB(1)));
  vm_.FailRelease(1, FakeVirtualMemory::kForever);
  const auto delete_five = [&] {
    for (int i = 0; i < 5; ++i) {
      heap_.Delete(spans.back());
      spans.pop_back();
    }
    return vm_.release_failures();
  };
  const size_t failures = delete_five();
  EXPECT_GT(failures, 0u);
  EXPECT_EQ(delete_five(), failures);
  ASSERT_NE(New(MiB(50)), nullptr);
  EXPECT_GT(delete_five(), failures);
}

TEST_F(PageHeapLimitsTest, AboveTheSoftLimitNoSpansAreKeptInCaches) {
  Limit(LimitKind::kSoft, 64 * kMiB);
  std::vector<Span*> spans;
  for (int i = 0; i < 2048; ++i) spans.push_back(heap_.NewNear(Length(8), under_test_.homes[3]));
  Keep(spans.back(), 3);
  EXPECT_EQ(NewFromCache(heap_, Length(8), under_test_.homes[3]), nullptr);
  spans.pop_back();
  while (heap_.GetStats().backed_bytes > LimitOf(heap_, LimitKind::kSoft)) {
    ASSERT_GT(spans.size(), 2u);
    Keep(spans.back(), 3);
    spans.pop_back();
  }
  Keep(spans.back(), 3);
  Keep(spans[0], 3);
  EXPECT_NE(NewFromCache(heap_, Length(8), under_test_.homes[3]), nullptr);
}

// Free backed memory after an object already counts as backed.
TEST_F(PageHeapLimitsTest, ReallocationInPlaceTakesBackedMemoryAtTheLimit) {
  Span* const span = New(MiB(60));
  void* const p = span->start_address();
  ASSERT_TRUE(heap_.ResizeLargeAt(span, p, MiB(30)));
  heap_.ReleaseAtLeast(MiB(30));
  ASSERT_TRUE(heap_.ResizeLargeAt(span, p, MiB(10)));
  ASSERT_EQ(heap_.GetStats().free_backed_bytes, 20 * kMiB);
  const size_t releases = vm_.release_calls();
  SetLimit(heap_, LimitKind::kHard, heap_.GetStats().backed_bytes);
  ASSERT_TRUE(heap_.ResizeLargeAt(span, p, MiB(20)));
  SetLimit(heap_, LimitKind::kHard, heap_.GetStats().backed_bytes + 5 * kMiB);
  ASSERT_TRUE(heap_.ResizeLargeAt(span, p, MiB(35)));
  EXPECT_EQ(Counts(LimitKind::kHard).hits, 0u);
  EXPECT_EQ(vm_.release_calls(), releases);
  EXPECT_FALSE(heap_.ResizeLargeAt(span, p, MiB(36)));
}

// Releasing free memory elsewhere makes room for an object to grow in place.
TEST_F(PageHeapLimitsTest, ReallocationInPlaceReleasesWhatIsFreeElsewhere) {
  Span* const all = New(MiB(64));
  Span* const elsewhere = New(MiB(50));
  void* const p = all->start_address();
  // The heap has an object of 20 MiB, then 44 MiB unbacked, and 50 MiB free and backed.
  ASSERT_TRUE(heap_.ResizeLargeAt(all, p, MiB(20)));
  heap_.ReleaseAtLeast(MiB(64));
  heap_.Delete(elsewhere);
  ASSERT_EQ(heap_.GetStats().free_backed_bytes, 50 * kMiB);
  SetLimit(heap_, LimitKind::kHard, heap_.GetStats().backed_bytes + kMiB);
  ASSERT_TRUE(heap_.ResizeLargeAt(all, p, MiB(50)));
  EXPECT_LE(heap_.GetStats().backed_bytes, LimitOf(heap_, LimitKind::kHard));
  EXPECT_EQ(Counts(LimitKind::kHard).hits, 1u);
  // At the soft limit the object grows in any case.
  SetLimit(heap_, LimitKind::kHard, kNoLimit);
  SetLimit(heap_, LimitKind::kSoft, kMiB);
  ASSERT_TRUE(heap_.ResizeLargeAt(all, p, MiB(60)));
  EXPECT_EQ(Counts(LimitKind::kSoft).hits, 1u);
  heap_.store()->CheckInvariants();
}

// The OS refuses mappings (strict overcommit, too many mappings) while a limit requires releases.
// The heap stays correct, no matter what fails.
TEST_F(PageHeapLimitsTest, RandomWorkUnderLimitsWhereTheOsRefuses) {
  constexpr uint64_t kSeed = 90125;
  SeededRandom random(kSeed);
  std::vector<Span*> spans;
  size_t refused = 0;
  for (int step = 0; step < 30'000; ++step) {
    if (random.OneIn(500)) {
      SetLimit(heap_, LimitKind::kHard, random.OneIn(4) ? kNoLimit : random.Between(1, 200) * kMiB);
      SetLimit(heap_, LimitKind::kSoft, random.OneIn(4) ? kNoLimit : random.Between(1, 200) * kMiB);
      if (random.OneIn(2)) heap_.ReleaseAboveLimits();
    }
    if (random.OneIn(100)) {
      vm_.StopFailing();
      if (random.OneIn(2)) vm_.FailMap(random.Between(1, 4), random.Between(1, 20));
      if (random.OneIn(2)) vm_.FailRelease(random.Between(1, 4), random.Between(1, 200));
    }
    const size_t before = heap_.GetStats().backed_bytes;
    const size_t records_before = under_test_.arena.mapped_bytes();
    bool took = false;
    const bool prefers_new = (step / 3000) % 2 == 0;
    if (random.Below(100) < (prefers_new ? 60u : 40u)) {
      const Length n(random.OneIn(10) ? random.Between(1, 3000) : random.Between(1, 60));
      const size_t shard = random.Below(4);
      Span* const span = random.OneIn(3) ? heap_.NewNear(n, under_test_.homes[shard]) : New(n);
      took = span != nullptr;
      refused += span == nullptr;
      if (took) spans.push_back(span);
    } else if (!spans.empty()) {
      std::swap(spans[random.Below(spans.size())], spans.back());
      Span* const span = spans.back();
      if (span->state.load() == SpanState::kLarge && random.OneIn(3)) {
        const Length n(random.Between(1, 2 * span->num_pages.pages()));
        took = heap_.ResizeLargeAt(span, span->start_address(), n);
      } else {
        spans.pop_back();
        if (span->state.load() == SpanState::kSmall) {
          DeleteToCache(heap_, span, under_test_.homes[random.Below(4)], random.OneIn(2));
        } else {
          heap_.Delete(span);
        }
      }
    }
    const size_t after = heap_.GetStats().backed_bytes;
    const size_t records = under_test_.arena.mapped_bytes() - records_before;
    // The limit may have been lowered below the heap's size. Then the heap only hands out free
    // memory, but its records may still grow.
    if (took && after - records > before) {
      ASSERT_LE(after - records, LimitOf(heap_, LimitKind::kHard)) << step;
    }
    if (step % 1000 == 0) heap_.store()->CheckInvariants();
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(Counts(LimitKind::kHard).released_bytes, 0u);
  EXPECT_GT(Counts(LimitKind::kSoft).released_bytes, 0u);
  for (Span* const span : spans) heap_.Delete(span);
}

// ThreadSanitizer runs this, too.
TEST_F(PageHeapLimitsTest, TheHardLimitHoldsForAllThreadsTogether) {
  constexpr size_t kLimit = 48 * kMiB;
  SetLimit(heap_, LimitKind::kHard, kLimit);
  SetLimit(heap_, LimitKind::kSoft, kLimit - 8 * kMiB);
  std::atomic<size_t> taken{0};
  RunThreads(4, [&](size_t t) {
    SeededRandom random(t);
    std::vector<Span*> spans;
    for (int step = 0; step < 4000; ++step) {
      if (random.OneIn(2)) {
        Span* const span = New(Length(random.Between(1, 400)));
        if (span != nullptr) spans.push_back(span);
        taken += span != nullptr;
      } else if (!spans.empty()) {
        std::swap(spans[random.Below(spans.size())], spans.back());
        heap_.Delete(spans.back());
        spans.pop_back();
      }
      // Some thousands of records may exceed the limit.
      ASSERT_LE(heap_.GetStats().backed_bytes, kLimit + 2 * kMiB);
    }
    for (Span* const span : spans) heap_.Delete(span);
  });
  EXPECT_GT(taken, 1000u);
  EXPECT_GT(Counts(LimitKind::kHard).hits, 0u);
  heap_.store()->CheckInvariants();
  EXPECT_NE(New(Length::ForBytes(kLimit - under_test_.arena.mapped_bytes())), nullptr);
}

// To save address space, a large object takes the shortest free memory, released or not. At the
// hard limit, other memory must be released before that memory can be backed again. If the OS
// refuses that, longer backed memory serves instead.
TEST(PageHeapLimitsPlaceTest, ABackedPlaceServesWhenTheTightestFitExceedsTheLimit) {
  for (const bool limited : {false, true}) {
    SCOPED_TRACE(limited);
    PageHeapUnderTest under_test(FakeVirtualMemory::AddressOnly(size_t{1} << 30),
                                 {.spare_space = Length(0)});
    PageHeap& heap = under_test.heap;
    heap.governor()->SetReleaseRate(0);
    Span* const backed = heap.New(MiB(4), SpanState::kLarge);
    ASSERT_NE(heap.New(Length(1), SpanState::kLarge), nullptr);
    Span* const released = heap.New(MiB(2), SpanState::kLarge);
    ASSERT_NE(heap.New(Length(1), SpanState::kLarge), nullptr);
    const PageId expected = (limited ? backed : released)->first_page;
    heap.Delete(released);
    heap.ReleaseAtLeast(MiB(2));
    heap.Delete(backed);
    if (limited) SetLimit(heap, LimitKind::kHard, heap.GetStats().backed_bytes);
    under_test.vm.FailRelease(1, FakeVirtualMemory::kForever);
    Span* const span = heap.New(MiB(2), SpanState::kLarge);
    ASSERT_NE(span, nullptr);
    EXPECT_EQ(span->first_page, expected);
    EXPECT_LE(heap.GetStats().backed_bytes, LimitOf(heap, LimitKind::kHard));
    heap.store()->CheckInvariants();
  }
}

}  // namespace
}  // namespace tcmalloc
