// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <string>

#include "instruments/control/actions.h"
#include "instruments/profiles/sampler.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

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
