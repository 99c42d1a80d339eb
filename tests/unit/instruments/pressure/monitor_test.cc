// SPDX-License-Identifier: BSD-3-Clause
// Tests the monitor in a simulated world: time, memory and actions are fakes, and descriptors are
// pipes and eventfds.
#include "instruments/pressure/monitor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "instruments/pressure/config.h"

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
            .act =
                [](void* w, int level) {
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

  struct Pipe {
    Pipe() { EXPECT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0); }
    int operator[](size_t i) const { return ends[i]; }
    int ends[2];
  };
  // Adds a pipe as a source; keeps the end to write to.
  void AddStream() {
    const Pipe ends;
    EXPECT_TRUE(monitor_.AddSource(ends[0], PressureSource::kStream));
    fds_.push_back(ends[1]);
  }
  static void Tell(int fd) { EXPECT_EQ(write(fd, "x", 1), 1); }
  // Handles events without waiting. The alarm may be among them.
  int Handle() { return monitor_.Handle(0); }
  static bool IsReadable(const PressureMonitor& monitor) {
    pollfd poll_fd = {monitor.fd(), POLLIN, 0};
    return poll(&poll_fd, 1, 0) == 1;
  }

  TestWorld world_;
  PressureCounts counts_;
  PressureMonitor monitor_;
  std::vector<int> fds_;
};

TEST_F(PressureMonitorTest, AStallIsAnEventThatNobodyReads) {
  // Urgent data on a socket causes the same event as a PSI trigger.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const int urgent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      connect(urgent, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    GTEST_SKIP() << "no connection on this machine: " << strerror(errno);
  }
  const int stall = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  close(listener);
  fds_.push_back(urgent);
  ASSERT_TRUE(monitor_.AddSource(stall, PressureSource::kStall));
  EXPECT_EQ(monitor_.Handle(-1), 0);
  ASSERT_EQ(send(urgent, "x", 1, MSG_OOB), 1);
  int level = 0;
  while (level == 0) level = monitor_.Handle(-1);
  EXPECT_EQ(level, 3);
  EXPECT_EQ(counts_.events.value(), 1U);
  // The urgent data is still there, and the source is disarmed.
  EXPECT_EQ(Handle(), 0);
  EXPECT_EQ(counts_.events.value(), 1U);
}

// The counter of a removed group reports an event forever, but nothing can be read.
TEST_F(PressureMonitorTest, ACounterThatCannotBeReadIsDropped) {
  const Pipe ends;
  close(ends[0]);
  ASSERT_TRUE(monitor_.AddSource(ends[1], PressureSource::kHighCount));
  EXPECT_EQ(monitor_.Handle(-1), 0);
  Handle();
  EXPECT_EQ(monitor_.num_sources(), 0U);
  EXPECT_EQ(counts_.sources_failed.load(), 1U);
  EXPECT_EQ(counts_.events.value(), 0U);
}

// The program closed a source's descriptor and uses the number for a file of its own.
TEST_F(PressureMonitorTest, WhatGotASourcesNumberIsNotRead) {
  const Pipe ends;
  // Another descriptor of the same file exists, so the kernel continues to report its events.
  const int copy = dup(ends[0]);
  const int number = MoveDescriptorUp(ends[0]);
  ASSERT_TRUE(monitor_.AddSource(number, PressureSource::kStream));
  EXPECT_EQ(monitor_.Handle(-1), 0);
  const Pipe theirs;
  ASSERT_EQ(dup2(theirs[0], number), number);
  Tell(ends[1]);
  Tell(theirs[1]);
  while (monitor_.num_sources() > 0) EXPECT_EQ(monitor_.Handle(-1), 0);
  char byte;
  EXPECT_EQ(read(number, &byte, 1), 1);
  monitor_.Close();
  EXPECT_GE(fcntl(number, F_GETFD), 0) << "closed";
  for (const int fd : {ends[1], copy, theirs[0], theirs[1], number}) close(fd);
}

// Between its actions a source is disarmed, so events do not even wake the thread. Another source
// causes the reading at the end of the interval, since the real alarm would come too late for the
// test.
TEST_F(PressureMonitorTest, AStormIsOneActionAnInterval) {
  constexpr int64_t kHourMs = 3'600'000;
  PressureMonitor monitor(world_.World(), kHourMs, counts_);
  ASSERT_TRUE(monitor.Open());
  EXPECT_EQ(monitor.Handle(-1), 0);
  const Pipe storm;
  const Pipe other;
  ASSERT_TRUE(monitor.AddSource(storm[0], PressureSource::kStream));
  ASSERT_TRUE(monitor.AddSource(other[0], PressureSource::kThreshold));
  for (uint64_t round = 1; round <= 5; ++round) {
    for (int i = 0; i < 100; ++i) {
      Tell(storm[1]);
      EXPECT_EQ(IsReadable(monitor), i == 0);
      if (i == 0) {
        EXPECT_EQ(monitor.Handle(0), 3);
      }
    }
    EXPECT_EQ(counts_.events.value(), round);
    TestWorld::now_ms += kHourMs;
    Tell(other[1]);
    EXPECT_EQ(monitor.Handle(-1), 0);
    TestWorld::now_ms += kNearMs;
  }
  close(storm[1]);
  close(other[1]);
}

TEST_F(PressureMonitorTest, RefusesMoreSourcesThanItHoldsAndThoseThatHaveNoEvents) {
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_FALSE(monitor_.AddSource(file, PressureSource::kStream));
  for (size_t i = 0; i < PressureMonitor::kMaxSources; ++i) AddStream();
  EXPECT_EQ(counts_.sources.load(), PressureMonitor::kMaxSources);
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  EXPECT_FALSE(monitor_.AddSource(fd, PressureSource::kThreshold));
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
  EXPECT_EQ(counts_.sources_failed.load(), 2U);
}

TEST_F(PressureMonitorTest, SaysThatItsDescriptorsWereClosed) {
  AddStream();
  EXPECT_EQ(monitor_.Handle(-1), 0);
  close(monitor_.fd());
  EXPECT_LT(Handle(), 0);
  EXPECT_EQ(monitor_.num_sources(), 0U);
  EXPECT_LT(monitor_.fd(), 0);
}

}  // namespace
}  // namespace tcmalloc
