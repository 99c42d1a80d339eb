// SPDX-License-Identifier: BSD-3-Clause
#include "process/limits.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <vector>

#include "os/clock.h"
#include "process/current_thread.h"
#include "process/new_heap.h"
#include "testing/fake_tree.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

// A system with one control group, whose limit the test chooses.
class LimitsTest : public testing::Test {
 protected:
  LimitsTest() {
    heap_.page_heap.governor()->SetReleaseRate(0);
    tree_.Write("/proc/self/cgroup", "0::/\n");
    tree_.Write("/proc/self/mountinfo", "30 23 0:26 / /g rw - cgroup2 cgroup2 rw\n");
  }

  void SetContainerLimit(const char* text) { tree_.Write("/g/memory.max", text); }
  void UpdateShare() { UpdateContainerShare(heap_, tree_.root()); }
  size_t SoftLimit() { return heap_.page_heap.governor()->limits().soft_bytes; }
  Span* New(Length n) { return heap_.page_heap.New(n, SpanState::kLarge); }

  Heap& heap_ = NewHeap();
  FakeTree tree_;
};

TEST_F(LimitsTest, AShareFollowsTheContainer) {
  SetContainerLimit("1000000000\n");
  UpdateShare();
  EXPECT_EQ(SoftLimit(), kNoLimit) << "no share was set";
  heap_.container_share.percent.store(80);
  UpdateShare();
  EXPECT_EQ(SoftLimit(), 800'000'000u);
  SetContainerLimit("500000000\n");
  UpdateShare();
  EXPECT_EQ(SoftLimit(), 400'000'000u);
  // While the control group cannot be read, the limit stays as it is.
  std::filesystem::rename(tree_.Path("/proc"), tree_.Path("/gone"));
  UpdateShare();
  EXPECT_EQ(SoftLimit(), 400'000'000u);
  std::filesystem::rename(tree_.Path("/gone"), tree_.Path("/proc"));
  SetContainerLimit("max\n");
  UpdateShare();
  EXPECT_EQ(SoftLimit(), kNoLimit);
}

TEST_F(LimitsTest, TheProgramsLimitReplacesAShare) {
  heap_.container_share.percent.store(80);
  SetContainerLimit("1000000000\n");
  UpdateShare();
  SetMemoryLimit(heap_, LimitKind::kHard, 900'000'000);
  UpdateShare();
  EXPECT_EQ(SoftLimit(), 800'000'000u);
  SetMemoryLimit(heap_, LimitKind::kSoft, 123'456'789);
  UpdateShare();
  EXPECT_EQ(SoftLimit(), 123'456'789u);
  EXPECT_EQ(heap_.container_share.percent.load(), 0u);
  SetMemoryLimit(heap_, LimitKind::kSoft, kNoLimit);
  UpdateShare();
  EXPECT_EQ(SoftLimit(), kNoLimit);
  SetContainerShare(heap_, 50, tree_.root());
  EXPECT_EQ(SoftLimit(), 500'000'000u);
  SetMemoryLimit(heap_, LimitKind::kSoft, kNoLimit);
  // Another thread is updating the share at the moment.
  heap_.container_share.percent.store(80);
  UpdateShare();
  EXPECT_EQ(SoftLimit(), kNoLimit);
}

TEST_F(LimitsTest, AllocationsReadTheLimitWhenItIsDue) {
  LimitedAllocation without_share(heap_);
  EXPECT_EQ(heap_.container_share.look_at_ms.load(), 0);
  heap_.container_share.percent.store(80);
  const int64_t before = CoarseMilliseconds();
  LimitedAllocation first(heap_);
  const int64_t due = heap_.container_share.look_at_ms.load();
  EXPECT_GE(due, before + 1000);
  EXPECT_LE(due, CoarseMilliseconds() + 10'000);
  heap_.container_share.look_at_ms.store(due + 1'000'000);
  LimitedAllocation second(heap_);
  EXPECT_EQ(heap_.container_share.look_at_ms.load(), due + 1'000'000);
  heap_.container_share.look_at_ms.store(before - 1);
  LimitedAllocation third(heap_);
  EXPECT_GE(heap_.container_share.look_at_ms.load(), due);
}

TEST_F(LimitsTest, SettingALimitReleasesFreeMemoryAboveIt) {
  Span* const held = New(MiB(20));
  heap_.page_heap.Delete(New(MiB(50)));
  SetMemoryLimit(heap_, LimitKind::kSoft, 40 * kMiB);
  EXPECT_LE(heap_.page_heap.GetStats().backed_bytes, 40 * kMiB);
  EXPECT_GT(heap_.page_heap.GetStats().backed_bytes, 20 * kMiB);
  SetMemoryLimit(heap_, LimitKind::kHard, 10 * kMiB);
  EXPECT_EQ(heap_.page_heap.GetStats().free_backed_bytes, 0u);
  heap_.page_heap.Delete(held);
}

struct Heard {
  Heap* heap;
  std::vector<int> kinds = {};
  bool allocates = false;
  size_t last_backed = 0;
};

void Hear(int kind, size_t backed, size_t, void* context) {
  Heard& heard = *static_cast<Heard*>(context);
  heard.kinds.push_back(kind);
  heard.last_backed = backed;
  errno = 55;
  if (heard.allocates) {
    // Does what the slow path of an allocation in the callback does.
    LimitedAllocation limited(*heard.heap);
    Span* const span = heard.heap->page_heap.New(MiB(1000), SpanState::kLarge);
    limited.Ended(span == nullptr, 1000);
    if (span != nullptr) heard.heap->page_heap.Delete(span);
  }
}

TEST_F(LimitsTest, TheSoftLimitsCallbackRunsWhenTheAllocationEnds) {
  Heard heard{.heap = &heap_};
  heap_.page_heap.governor()->limit_watch().SetCallback(&Hear, &heard);
  SetMemoryLimit(heap_, LimitKind::kSoft, 10 * kMiB);
  LimitedAllocation limited(heap_);
  ASSERT_NE(New(MiB(20)), nullptr);
  EXPECT_TRUE(heard.kinds.empty());
  errno = 77;
  limited.Ended(false, 1000);
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(heard.kinds, std::vector<int>{1});
  EXPECT_GE(heard.last_backed, 20 * kMiB);
  limited.Ended(false, 1000);
  EXPECT_EQ(heard.kinds.size(), 1u);
}

TEST_F(LimitsTest, TheHardLimitsCallbackRunsWhenTheAllocationFailed) {
  Heard heard{.heap = &heap_};
  heap_.page_heap.governor()->limit_watch().SetCallback(&Hear, &heard);
  SetMemoryLimit(heap_, LimitKind::kHard, 10 * kMiB);
  {
    LimitedAllocation limited(heap_);
    ASSERT_EQ(New(MiB(20)), nullptr);
    // Another try succeeded.
    limited.Ended(false, 1000);
    EXPECT_TRUE(heard.kinds.empty());
  }
  {
    // Memory is short for another reason than the limit.
    LimitedAllocation limited(heap_);
    limited.Ended(true, 1000);
    EXPECT_TRUE(heard.kinds.empty());
  }
  LimitedAllocation limited(heap_);
  ASSERT_EQ(New(MiB(20)), nullptr);
  limited.Ended(true, 1000);
  EXPECT_EQ(heard.kinds, std::vector<int>{0});
}

// The way in which the callback is left.
enum class Leaving { kByLongjmp, kByException };
jmp_buf out_of_callback;
int left_callbacks;

template <Leaving kHow>
void Leave(int, size_t, size_t, void*) {
  ++left_callbacks;
  if (kHow == Leaving::kByLongjmp) longjmp(out_of_callback, 1);
  throw 1;
}

// Reports that the soft limit was exceeded, at some depth of calls, and leaves the callback.
__attribute__((noinline)) void ExceedAndLeave(Heap& heap, Length n, int depth) {
  if (depth > 0) {
    ExceedAndLeave(heap, n, depth - 1);
    asm volatile("" : : : "memory");
    return;
  }
  LimitedAllocation limited(heap);
  EXPECT_NE(heap.page_heap.New(n, SpanState::kLarge), nullptr);
  limited.Ended(false, n.bytes());
  ADD_FAILURE() << "the callback was not called";
}

__attribute__((noinline)) void OverwriteStackBelow() {
  volatile char bytes[16 << 10];
  for (volatile char& byte : bytes) byte = 0;
}

void ExpectAllCalls(Heap& heap, LimitCallback callback) {
  heap.page_heap.governor()->limit_watch().SetCallback(callback, nullptr);
  left_callbacks = 0;
  // Two calls have the same depth, others have another depth or are deeper.
  static constexpr int kDepths[] = {3, 3, 0, 10, 0, 200};
  static std::atomic<size_t> call;
  for (call = 0; call < std::size(kDepths); ++call) {
    const int depth = kDepths[call];
    // Each call exceeds the limit anew.
    SetMemoryLimit(heap, LimitKind::kSoft, kNoLimit);
    SetMemoryLimit(heap, LimitKind::kSoft, 10 * kMiB);
    // Deeper calls may not overwrite an abandoned mark, which would then count as running (see
    // FrameMark).
    if (call > 0 && depth > kDepths[call - 1]) OverwriteStackBelow();
    if (setjmp(out_of_callback) == 0) {
      try {
        ExceedAndLeave(heap, MiB(20), depth);
      } catch (int) {
      }
    }
    EXPECT_EQ(left_callbacks, static_cast<int>(call) + 1) << "depth " << kDepths[call];
  }
}

TEST_F(LimitsTest, ACallbackThatIsLeftByLongjmpHasEnded) {
  ExpectAllCalls(heap_, &Leave<Leaving::kByLongjmp>);
}

TEST_F(LimitsTest, ACallbackThatIsLeftByAnExceptionHasEnded) {
  ExpectAllCalls(heap_, &Leave<Leaving::kByException>);
}

TEST_F(LimitsTest, ACallbackIsNotCalledForItself) {
  Heard heard{.heap = &heap_, .allocates = true};
  heap_.page_heap.governor()->limit_watch().SetCallback(&Hear, &heard);
  SetMemoryLimit(heap_, LimitKind::kHard, 30 * kMiB);
  SetMemoryLimit(heap_, LimitKind::kSoft, 10 * kMiB);
  LimitedAllocation limited(heap_);
  ASSERT_NE(New(MiB(20)), nullptr);
  limited.Ended(false, 1000);
  EXPECT_EQ(heard.kinds, std::vector<int>{1});
  // The next allocation that the limit affects is reported again.
  LimitedAllocation failing(heap_);
  ASSERT_EQ(New(MiB(20)), nullptr);
  failing.Ended(true, 1000);
  EXPECT_EQ(heard.kinds, (std::vector<int>{1, 0}));
  EXPECT_EQ(current_slot.callback, 0u);
}

TEST_F(LimitsTest, WithoutACallbackTheFirstFailureIsReported) {
  SetMemoryLimit(heap_, LimitKind::kHard, 10 * kMiB);
  SetMemoryLimit(heap_, LimitKind::kSoft, kMiB);
  LimitedAllocation limited(heap_);
  ASSERT_NE(New(MiB(5)), nullptr);
  ASSERT_EQ(New(MiB(20)), nullptr);
  EXPECT_EXIT(
      {
        errno = 77;
        limited.Ended(true, 20 * kMiB);
        limited.Ended(true, 30 * kMiB);
        _exit(errno == 77 ? 0 : 1);
      },
      testing::ExitedWithCode(0),
      "^tcmalloc: hard limit: an allocation of 20971520 bytes failed: the limit is 10\\.0 MiB, and "
      "the heap has [56]\\.[0-9] MiB; raise TCMALLOC_HEAP_LIMIT_MB; later failures are not "
      "reported\n$");
  Heard heard{.heap = &heap_};
  heap_.page_heap.governor()->limit_watch().SetCallback(&Hear, &heard);
  EXPECT_EXIT(
      {
        limited.Ended(true, 20 * kMiB);
        _exit(heard.kinds == std::vector<int>{0} ? 0 : 1);
      },
      testing::ExitedWithCode(0), testing::Eq(""))
      << "the program has a callback";
}

}  // namespace
}  // namespace tcmalloc
