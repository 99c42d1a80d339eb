// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/control/actions.h"

#include <gtest/gtest.h>

#include <string>

#include "instruments/profiles/sampler.h"
#include "process/heap.h"
#include "process/limits.h"
#include "process/new_heap.h"

namespace tcmalloc {
namespace {

class ActionsTest : public testing::Test {
 protected:
  ActionsTest() {
    heap_.page_heap.governor()->SetReleaseRate(0);
    // Gives the heap free backed pages.
    heap_.page_heap.Delete(heap_.page_heap.New(Length(64), SpanState::kLarge));
  }
  const ControlReply& Do(ControlKind kind) {
    reply_.status = ControlReply::kDone;
    reply_.bytes = 0;
    kCarryOut(heap_, kind, "", &reply_);
    return reply_;
  }
  size_t FreeBacked() { return heap_.page_heap.GetStats().free_backed_bytes; }

  Heap& heap_ = NewHeap();
  ControlReply reply_;
};

TEST_F(ActionsTest, FlushMovesWhatCachesHold) {
  const size_t before = FreeBacked();
  EXPECT_EQ(Do(ControlKind::kFlush).bytes, 0u);
  EXPECT_EQ(FreeBacked(), before);
}

TEST_F(ActionsTest, ReleaseAndTrimReleaseFreePages) {
  const size_t before = FreeBacked();
  ASSERT_GE(before, 64 * kPageSize);
  EXPECT_GE(Do(ControlKind::kRelease).bytes, 64 * kPageSize);
  EXPECT_LT(FreeBacked(), before);
  heap_.page_heap.Delete(heap_.page_heap.New(Length(64), SpanState::kLarge));
  EXPECT_GE(Do(ControlKind::kTrim).bytes, 64 * kPageSize);
}

TEST_F(ActionsTest, NothingIsReleasedWhereThatIsForbidden) {
  heap_.settings.disable_memory_release = true;
  for (const ControlKind kind : {ControlKind::kRelease, ControlKind::kTrim}) {
    const ControlReply& reply = Do(kind);
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

TEST_F(ChangeableTest, APercentageOfTheContainerIsReplacedAndNotSet) {
  heap_.container_share.percent.store(80);
  heap_.page_heap.governor()->SetLimit(LimitKind::kSoft, 1000, LimitOrigin::kContainer);
  EXPECT_EQ(Set("TCMALLOC_SOFT_LIMIT=50%"),
            "a percentage can be set in the environment only: write bytes");
  EXPECT_EQ(Set("TCMALLOC_SOFT_LIMIT=2M"), "80% (1000) -> 2097152");
}

TEST_F(ChangeableTest, TheTotalOfCachesFollowsItsShareAgain) {
  heap_.registry.FollowRetention();
  const std::string share = "-1 (" + std::to_string(heap_.registry.limits().total) + ")";
  EXPECT_EQ(Set("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=8M"), share + " -> 8388608");
  EXPECT_TRUE(heap_.registry.total_was_set());
  EXPECT_EQ(Set("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=-1"), "8388608 -> " + share);
  EXPECT_FALSE(heap_.registry.total_was_set());
}

TEST_F(ChangeableTest, RefusesWhatTheEnvironmentRefuses) {
  EXPECT_EQ(Set("TCMALLOC_RELEASE_RATE=1001"), "expected number from 0 to 1000");
  EXPECT_EQ(Set("TCMALLOC_RELEASE_RATE=-1"), "expected number from 0 to 1000");
  EXPECT_EQ(Set("TCMALLOC_RELEASE_RATE=fast"), "expected number from 0 to 1000");
  EXPECT_EQ(Set("TCMALLOC_RELEASE_RATE"), "expected number from 0 to 1000");
  EXPECT_EQ(heap_.page_heap.governor()->release_rate(), 1);
  heap_.page_heap.governor()->SetReleasing(Releasing::kNever);
  EXPECT_EQ(Set("TCMALLOC_AGGRESSIVE_DECOMMIT=1"), "TCMALLOC_DISABLE_MEMORY_RELEASE is set");
  EXPECT_EQ(heap_.page_heap.hints().releasing.value(), Releasing::kNever);
}

TEST_F(ChangeableTest, NamesWhatCanBeChanged) {
  const std::string unknown = Set("TCMALLOC_NOTHING=1");
  EXPECT_EQ(unknown.find("there is no such setting; settings that can be changed: "), 0u);
  EXPECT_NE(unknown.find(" release_rate, "), std::string::npos) << unknown;
  EXPECT_EQ(Set("TCMALLOC_HUGEPAGES=0").find("it cannot be changed while the process runs"), 0u);
}

// The tests use the process's own heap, because the samples belong to the process.
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

TEST_F(ProfilingTest, SwitchesSamplingOnAndOffAgain) {
  const std::string interval = std::to_string(kDefaultSamplePeriod);
  EXPECT_EQ(Start(""), "0 -> " + interval);
  EXPECT_TRUE(Records());
  EXPECT_EQ(Stop(), interval + " -> 0");
  EXPECT_FALSE(Records());
  EXPECT_EQ(heap_.sampling.period(), 0u);
}

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

TEST_F(ProfilingTest, TheIntervalIsANumberOfBytes) {
  for (const char* const text : {"x", "0", "-1", "50%", "1.5", "99999999999999999999"}) {
    EXPECT_NE(Start(text).find("must be a number of bytes"), std::string::npos) << text;
    EXPECT_FALSE(Records());
  }
}

}  // namespace

}  // namespace tcmalloc
