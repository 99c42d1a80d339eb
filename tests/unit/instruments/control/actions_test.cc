// SPDX-License-Identifier: BSD-3-Clause
// tests/command/control_test.py has each request, and settings that are refused.
#include "instruments/control/actions.h"

#include <gtest/gtest.h>

#include <string>

#include "instruments/profiles/sampler.h"
#include "process/heap.h"
#include "process/limits.h"
#include "process/new_heap.h"

namespace tcmalloc {
namespace {

TEST(ActionsTest, NothingIsReleasedWhereThatIsForbidden) {
  Heap& heap = NewHeap();
  heap.settings.disable_memory_release = true;
  for (const ControlKind kind : {ControlKind::kRelease, ControlKind::kTrim}) {
    ControlReply reply;
    reply.status = ControlReply::kDone;
    kCarryOut(heap, kind, "", &reply);
    EXPECT_EQ(reply.status, ControlReply::kRefused);
    EXPECT_NE(std::string(reply.message).find("TCMALLOC_DISABLE_MEMORY_RELEASE"),
              std::string::npos);
  }
}

class ChangeableTest : public testing::Test {
 protected:
  // Returns the value before and the value now, or the refusal.
  std::string Set(const std::string& text) {
    ControlReply reply;
    reply.status = ControlReply::kDone;
    ChangeSetting(heap_, text, &reply);
    if (reply.status == ControlReply::kRefused) return reply.message;
    EXPECT_EQ(reply.status, ControlReply::kDone);
    return std::string(reply.before) + " -> " + reply.after;
  }
  MemoryLimits Limits() { return heap_.page_heap.governor()->limits(); }

  Heap& heap_ = NewHeap();
};

TEST_F(ChangeableTest, SaysTheOldAndTheNewValue) {
  EXPECT_EQ(Set("TCMALLOC_RELEASE_RATE=2.5"), "1 -> 2.5");
  EXPECT_EQ(Set("TCMALLOC_RELEASE_RATE=0.001"), "2.5 -> 0.001");
  EXPECT_EQ(Set("TCMALLOC_RELEASE_RATE=1.05"), "0.001 -> 1.05");
  EXPECT_EQ(heap_.page_heap.governor()->release_rate(), 1.05);
  EXPECT_EQ(Set("TCMALLOC_AGGRESSIVE_DECOMMIT=on"), "0 -> 1");
  EXPECT_EQ(heap_.page_heap.hints().releasing.value(), Releasing::kEager);
  EXPECT_EQ(Set("TCMALLOC_AGGRESSIVE_DECOMMIT=off"), "1 -> 0");
  EXPECT_EQ(Set("TCMALLOC_RETENTION=32M"), "0 -> 33554432");
  EXPECT_EQ(heap_.page_heap.hints().retention.set_bytes(), 32_MiB);
  EXPECT_EQ(Set("TCMALLOC_SAMPLE_PARAMETER=512K"), "0 -> 524288");
  EXPECT_EQ(heap_.sampling.period(), 512_KiB);
  EXPECT_EQ(Set("TCMALLOC_SAMPLE_PARAMETER=0"), "524288 -> 0");
  EXPECT_EQ(Set("TCMALLOC_GUARDED_SAMPLE=3"), "0 -> 3");
  EXPECT_EQ(heap_.guarded.every.load(), 3u);
  EXPECT_EQ(Set("TCMALLOC_GUARDED_SAMPLE=0"), "3 -> 0");
  EXPECT_EQ(Set("TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD=1M"), "1073741824 -> 1048576");
  EXPECT_EQ(heap_.large_reports.threshold(), 1_MiB);
  EXPECT_EQ(Set("TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD=0"), "1048576 -> 0");
  EXPECT_EQ(heap_.large_reports.threshold(), LargeReports::kNever);
}

TEST_F(ChangeableTest, LimitsAndTheirAbsence) {
  EXPECT_EQ(Set("TCMALLOC_SOFT_LIMIT=2M"), "0 -> 2097152");
  EXPECT_EQ(Limits().soft_bytes, 2_MiB);
  EXPECT_EQ(Set("TCMALLOC_SOFT_LIMIT=0"), "2097152 -> 0");
  EXPECT_EQ(Limits().soft_bytes, kNoLimit);
  EXPECT_EQ(Set("TCMALLOC_HEAP_LIMIT_MB=1024"), "0 -> 1024");
  EXPECT_EQ(Limits().hard_bytes, 1_GiB);
  EXPECT_EQ(Set("TCMALLOC_HEAP_LIMIT_MB=1G"), "1024 -> 1024");
  EXPECT_EQ(Set("TCMALLOC_HEAP_LIMIT_MB=0"), "1024 -> 0");
  EXPECT_EQ(Limits().hard_bytes, kNoLimit);
}

TEST_F(ChangeableTest, APercentageOfTheContainerIsReplaced) {
  heap_.container_share.percent.store(80);
  heap_.page_heap.governor()->SetLimit(LimitKind::kSoft, 1000, LimitOrigin::kContainer);
  EXPECT_EQ(Set("TCMALLOC_SOFT_LIMIT=2M"), "80% (1000) -> 2097152");
  EXPECT_EQ(Set("TCMALLOC_SOFT_LIMIT=70%").find("2097152 -> 70% ("), 0u);
  EXPECT_EQ(heap_.container_share.percent.load(), 70u);
}

TEST_F(ChangeableTest, TheTotalOfCachesFollowsItsShareAgain) {
  heap_.registry.FollowRetention();
  const std::string share = "-1 (" + std::to_string(heap_.registry.limits().total) + ")";
  EXPECT_EQ(Set("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=8M"), share + " -> 8388608");
  EXPECT_TRUE(heap_.registry.total_was_set());
  EXPECT_EQ(Set("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=-1"), "8388608 -> " + share);
  EXPECT_FALSE(heap_.registry.total_was_set());
}

TEST_F(ChangeableTest, WhatMustNotBeReleasedIsNotReleasedEagerly) {
  heap_.page_heap.governor()->SetReleasing(Releasing::kNever);
  EXPECT_EQ(Set("TCMALLOC_AGGRESSIVE_DECOMMIT=1"), "TCMALLOC_DISABLE_MEMORY_RELEASE is set");
  EXPECT_EQ(heap_.page_heap.hints().releasing.value(), Releasing::kNever);
}

// tests/command/control_test.py starts and stops profiles of a process. The tests here use the
// process's own heap, because the samples belong to the process.
class ProfilingTest : public testing::Test {
 protected:
  ProfilingTest() { SetSamplePeriod(heap_, 0); }
  ~ProfilingTest() override {
    EndRecordingSamples();
    SetSamplePeriod(heap_, 0);
  }

  std::string Start(std::string_view interval) {
    return Do([&](ControlReply* reply) { StartProfile(heap_, interval, reply); });
  }
  std::string Stop() {
    return Do([&](ControlReply* reply) { StopProfile(heap_, reply); });
  }
  bool Records() {
    if (!BeginRecordingSamples(heap_)) return true;
    EndRecordingSamples();
    return false;
  }

  Heap& heap_ = ExistingHeap();

 private:
  template <typename F>
  std::string Do(F f) {
    ControlReply reply;
    reply.status = ControlReply::kDone;
    f(&reply);
    if (reply.status == ControlReply::kRefused) return reply.message;
    return std::string(reply.before) + " -> " + reply.after;
  }
};

TEST_F(ProfilingTest, KeepsTheIntervalOfTheProgram) {
  SetSamplePeriod(heap_, 100'000);
  EXPECT_EQ(Start(""), "100000 -> 100000");
  EXPECT_EQ(Stop(), "100000 -> 100000");
  EXPECT_EQ(Start("1M"), "100000 -> 1048576");
  EXPECT_EQ(Stop(), "1048576 -> 100000");
  // The interval was set again meanwhile: that value stays.
  EXPECT_EQ(Start("1M"), "100000 -> 1048576");
  SetSamplePeriod(heap_, 7000);
  EXPECT_EQ(Stop(), "7000 -> 7000");
}

TEST_F(ProfilingTest, LeavesARecordingOfTheProgramAlone) {
  EXPECT_NE(Stop().find("no profile --start came before"), std::string::npos);
  ASSERT_TRUE(BeginRecordingSamples(heap_));
  EXPECT_NE(Start("").find("recorded already"), std::string::npos);
  EXPECT_EQ(heap_.sampling.period(), 0u);
  EXPECT_NE(Stop().find("no profile --start came before"), std::string::npos);
  EXPECT_TRUE(Records());
}

}  // namespace
}  // namespace tcmalloc
