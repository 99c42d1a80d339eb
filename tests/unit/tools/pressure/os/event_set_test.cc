// SPDX-License-Identifier: BSD-3-Clause
// The tests use real descriptors, and wait only for the alarm.
#include "tools/pressure/os/event_set.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tools/pressure/os/high_descriptor.h"

namespace tcmalloc {
namespace {

using When = EventSet::When;

bool PollsIn(int fd) {
  pollfd polled = {fd, POLLIN, 0};
  return poll(&polled, 1, 0) == 1;
}

int NewCounter() {
  const int fd = MoveDescriptorUp(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  EXPECT_GE(fd, 0);
  return fd;
}

void Tell(int fd) {
  const uint64_t one = 1;
  EXPECT_EQ(write(fd, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

TEST(EventSetTest, ReportsEachEventOnceUntilRearmed) {
  EventSet set;
  ASSERT_TRUE(set.Open());
  const int fd = NewCounter();
  ASSERT_TRUE(set.Add(fd, When::kReadable, 7));
  EventSet::Event events[4];
  EXPECT_EQ(set.Wait(0, events, 4), 0);
  Tell(fd);
  EXPECT_TRUE(PollsIn(set.fd()));
  ASSERT_EQ(set.Wait(-1, events, 4), 1);
  EXPECT_EQ(events[0].tag, 7U);
  EXPECT_FALSE(events[0].broken);
  EXPECT_EQ(set.Wait(0, events, 4), 0);
  set.Rearm(fd, When::kReadable, 8);
  ASSERT_EQ(set.Wait(0, events, 4), 1);
  EXPECT_EQ(events[0].tag, 8U);
  EXPECT_TRUE(set.Remove(fd));
  EXPECT_FALSE(set.Remove(fd));
  close(fd);
}

TEST(EventSetTest, TheAlarmGoesOffWhenItWasSetFor) {
  EventSet set;
  ASSERT_TRUE(set.Open());
  EventSet::Event events[4];
  EXPECT_EQ(set.Wait(0, events, 4), 0);
  set.SetAlarm(0);
  ASSERT_EQ(set.Wait(-1, events, 4), 1);
  EXPECT_EQ(events[0].tag, EventSet::kAlarmTag);
  set.SetAlarm(20);
  ASSERT_EQ(set.Wait(-1, events, 4), 1);
  set.SetAlarm(0);
  set.SetAlarm(-1);
  EXPECT_EQ(set.Wait(0, events, 4), 0);
}

// A query changes nothing: a descriptor that was not added is not added afterwards.
TEST(EventSetTest, KnowsItsDescriptors) {
  EventSet set;
  ASSERT_TRUE(set.Open());
  const int held = NewCounter();
  const int other = NewCounter();
  ASSERT_TRUE(set.Add(held, When::kReadable, 1));
  Tell(held);
  Tell(other);
  EXPECT_TRUE(set.Holds(held));
  errno = 77;
  EXPECT_FALSE(set.Holds(other));
  EXPECT_EQ(errno, 77);
  EXPECT_FALSE(set.Holds(STDERR_FILENO));
  EXPECT_FALSE(set.Holds(-1));
  EXPECT_FALSE(set.Remove(other));
  EventSet::Event events[4];
  ASSERT_EQ(set.Wait(0, events, 4), 1);
  EXPECT_EQ(events[0].tag, 1U);
  EXPECT_TRUE(set.Holds(held)) << "held without Rearm, too";
  // The set holds neither the same file under another number nor another file under the same
  // number.
  const int copy = dup(held);
  EXPECT_FALSE(set.Holds(copy));
  ASSERT_EQ(dup2(other, held), held);
  EXPECT_FALSE(set.Holds(held));
  for (const int fd : {held, other, copy}) close(fd);
}

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
  EXPECT_EQ(epoll_wait(loop_number, &event, 1, 1000), 1);
  close(loop_number);
  close(timer_number);
}

}  // namespace
}  // namespace tcmalloc
