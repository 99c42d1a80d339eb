// SPDX-License-Identifier: BSD-3-Clause
#include "os/event_set.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

constexpr size_t kMaxEvents = 16;

uint32_t MaskFor(EventSet::When when) {
  return EPOLLONESHOT | (when == EventSet::When::kReadable ? EPOLLIN : EPOLLPRI);
}

}  // namespace

bool EventSet::Open() {
  const ErrnoKeeper keeper;
  epoll_fd_ = static_cast<int>(syscall(SYS_epoll_create1, EPOLL_CLOEXEC));
  timer_fd_ =
      static_cast<int>(syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (epoll_fd_ >= 0 && timer_fd_ >= 0 && Add(timer_fd_, When::kReadable, kAlarmTag)) return true;
  Close();
  return false;
}

void EventSet::Close() {
  const ErrnoKeeper keeper;
  if (epoll_fd_ >= 0) tcmalloc::Close(epoll_fd_);
  if (timer_fd_ >= 0) tcmalloc::Close(timer_fd_);
  epoll_fd_ = -1;
  timer_fd_ = -1;
}

void EventSet::Abandon() {
  epoll_fd_ = -1;
  timer_fd_ = -1;
}

bool EventSet::Control(int operation, int fd, When when, uint32_t tag) {
  const ErrnoKeeper keeper;
  epoll_event event = {};
  event.events = MaskFor(when);
  event.data.u32 = tag;
  return syscall(SYS_epoll_ctl, epoll_fd_, operation, fd, &event) == 0;
}

bool EventSet::Add(int fd, When when, uint32_t tag) {
  return Control(EPOLL_CTL_ADD, fd, when, tag);
}

void EventSet::Rearm(int fd, When when, uint32_t tag) { Control(EPOLL_CTL_MOD, fd, when, tag); }

void EventSet::Remove(int fd) { Control(EPOLL_CTL_DEL, fd, When::kReadable, 0); }

void EventSet::SetAlarm(int64_t ms) {
  const ErrnoKeeper keeper;
  // As the system call has it, also where time_t is longer. All zero: never.
  struct {
    long interval_seconds = 0;
    long interval_nanoseconds = 0;
    long seconds = 0;
    long nanoseconds = 0;
  } alarm;
  if (ms > 0) {
    alarm.seconds = static_cast<long>(ms / 1000);
    alarm.nanoseconds = static_cast<long>(ms % 1000 * 1'000'000);
  } else if (ms == 0) {
    alarm.nanoseconds = 1;
  }
  syscall(SYS_timerfd_settime, timer_fd_, 0, &alarm, nullptr);
  // It may have gone off before.
  Rearm(timer_fd_, When::kReadable, kAlarmTag);
}

int EventSet::Wait(int64_t timeout_ms, Event* events, size_t n) {
  const ErrnoKeeper keeper;
  epoll_event found[kMaxEvents];
  const int timeout = static_cast<int>(std::clamp<int64_t>(timeout_ms, -1, INT_MAX));
  // (Without a signal mask it is epoll_wait, which newer machines do not have.)
  const int count = static_cast<int>(syscall(SYS_epoll_pwait, epoll_fd_, found,
                                             std::min(n, kMaxEvents), timeout, nullptr, size_t{0}));
  for (int i = 0; i < count; ++i) {
    events[i].tag = found[i].data.u32;
    events[i].broken = (found[i].events & (EPOLLERR | EPOLLHUP)) != 0;
  }
  return count >= 0 ? count : errno == EINTR ? 0 : -1;
}

}  // namespace tcmalloc
