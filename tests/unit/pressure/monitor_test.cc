// SPDX-License-Identifier: BSD-3-Clause
// The monitor in a world of the test's own: time, memory and actions are made up, descriptors are
// pipes and counters. Real time passes only where the alarm clock is what is tested.
#include "pressure/monitor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

namespace tcmalloc {
namespace {

constexpr int64_t kIntervalMs = 1000;

struct TestWorld {
  PressureReadings readings{};
  uint64_t in_use = 1 << 20;
  size_t moves = 1 << 20;
  std::vector<int> actions;

  static int64_t now_ms;
  PressureMonitor::World World() {
    return {.context = this,
            .now_ms = [] { return now_ms; },
            .read = [](void* w) { return static_cast<TestWorld*>(w)->readings; },
            .in_use = [](void* w) { return static_cast<TestWorld*>(w)->in_use; },
            .act = [](void* w, int level) {
              auto* const world = static_cast<TestWorld*>(w);
              world->actions.push_back(level);
              return world->moves;
            }};
  }
};
int64_t TestWorld::now_ms = 0;

class PressureMonitorTest : public testing::Test {
 protected:
  PressureMonitorTest() : monitor_(world_.World(), kIntervalMs, counts_) {
    TestWorld::now_ms = 1'000'000;
    EXPECT_TRUE(monitor_.Open());
  }
  ~PressureMonitorTest() override {
    for (const int fd : fds_) close(fd);
  }

  // The end to write to.
  int AddStream() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    EXPECT_TRUE(monitor_.AddSource(ends[0], PressureSource::kStream));
    fds_.push_back(ends[1]);
    return ends[1];
  }
  static void Tell(int fd) { EXPECT_EQ(write(fd, "x", 1), 1); }
  // Without waiting; the alarm may be among what is handled.
  int Handle() { return monitor_.Handle(0); }
  bool IsReadable() const {
    pollfd poll_fd = {monitor_.fd(), POLLIN, 0};
    return poll(&poll_fd, 1, 0) == 1;
  }

  TestWorld world_;
  PressureCounts counts_;
  PressureMonitor monitor_;
  std::vector<int> fds_;
};

TEST_F(PressureMonitorTest, LooksAtOnceWhenItIsOpened) {
  world_.readings[1] = {100, 100};
  EXPECT_EQ(monitor_.Handle(-1), 2);
  EXPECT_EQ(world_.actions, std::vector<int>{2});
}

TEST_F(PressureMonitorTest, AnEventAsksForAllThatCanBeDone) {
  const int fd = AddStream();
  EXPECT_EQ(monitor_.Handle(-1), 0);
  EXPECT_EQ(Handle(), 0);
  Tell(fd);
  EXPECT_TRUE(IsReadable());
  EXPECT_EQ(Handle(), 3);
  EXPECT_EQ(counts_.events.value(), 1U);
}

TEST_F(PressureMonitorTest, AStormIsOneActionAnInterval) {
  const int fd = AddStream();
  size_t wakes = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    TestWorld::now_ms = 1'000'000 + ms;
    Tell(fd);
    if (!IsReadable()) continue;
    ++wakes;
    Handle();
  }
  EXPECT_GE(world_.actions.size(), 9U);
  EXPECT_LE(world_.actions.size(), 10U);
  // The alarm clock runs in real time, and this loop does not take as long as it pretends.
  EXPECT_LE(wakes, 2 * world_.actions.size() + 2);
}

}  // namespace
}  // namespace tcmalloc
