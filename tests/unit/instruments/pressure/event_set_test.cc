// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "instruments/pressure/monitor.h"

namespace tcmalloc {
namespace {

// The program has an event loop of its own, with a timer, under the same numbers: it is very
// similar to the set.
TEST(EventSetTest, DetectsAnotherEventLoopAtItsNumbers) {
  EventSet set;
  ASSERT_TRUE(set.Open());
  const int loop_number = set.fd();
  int timer_number = -1;
  for (int fd = 0; fd < 2048 && timer_number < 0; ++fd) {
    if (fd != loop_number && set.Holds(fd)) timer_number = fd;
  }
  ASSERT_GE(timer_number, 0);
  close(loop_number);
  close(timer_number);
  const int loop = epoll_create1(EPOLL_CLOEXEC);
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  ASSERT_EQ(dup2(loop, loop_number), loop_number);
  ASSERT_EQ(dup2(timer, timer_number), timer_number);
  close(loop);
  close(timer);
  itimerspec soon = {};
  soon.it_value.tv_nsec = 1;
  ASSERT_EQ(timerfd_settime(timer_number, 0, &soon, nullptr), 0);
  epoll_event event = {};
  event.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(loop_number, EPOLL_CTL_ADD, timer_number, &event), 0);
  EXPECT_FALSE(set.IsIntact());
  set.Close();
  EXPECT_EQ(epoll_wait(loop_number, &event, 1, -1), 1);
  close(loop_number);
  close(timer_number);
}

}  // namespace
}  // namespace tcmalloc
