// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/event_set.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

constexpr size_t kMaxEvents = 16;

// The system call's layout, even where time_t is longer.
struct AlarmTime {
  long interval_seconds = 0;
  long interval_nanoseconds = 0;
  long seconds = 0;
  long nanoseconds = 0;
};
// The alarm's repeat interval, which never elapses, distinguishes it from timers of the program.
constexpr long kMarkSeconds = 130'000'329;
constexpr long kMarkNanoseconds = 271'828'183;

uint32_t MaskFor(EventSet::When when) {
  return EPOLLONESHOT | (when == EventSet::When::kReadable ? EPOLLIN : EPOLLPRI);
}

}  // namespace

bool EventSet::Open() {
  const ErrnoKeeper keeper;
  epoll_fd_ = MoveDescriptorUp(static_cast<int>(syscall(SYS_epoll_create1, EPOLL_CLOEXEC)));
  if (epoll_fd_ >= 0) {
    timer_fd_ = MoveDescriptorUp(
        static_cast<int>(syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
  }
  open_error_ =
      timer_fd_ >= 0 ? Control(EPOLL_CTL_ADD, timer_fd_, When::kReadable, kAlarmTag) : errno;
  if (open_error_ == 0) {
    SetAlarm(-1);
    return true;
  }
  // No other code knows these descriptors yet.
  if (epoll_fd_ >= 0) tcmalloc::Close(epoll_fd_);
  if (timer_fd_ >= 0) tcmalloc::Close(timer_fd_);
  epoll_fd_ = -1;
  timer_fd_ = -1;
  return false;
}

void EventSet::Close() {
  if (epoll_fd_ < 0) return;
  const bool is_intact = IsIntact();
  const bool alarm_is_ours = AlarmIsOurs();
  const int epoll_fd = epoll_fd_;
  const int timer_fd = timer_fd_;
  // The members are cleared first, so that a child that is forked in between leaves the descriptors
  // open, and does not close other files with the same numbers.
  epoll_fd_ = -1;
  timer_fd_ = -1;
  if (is_intact) tcmalloc::Close(epoll_fd);
  if (alarm_is_ours) tcmalloc::Close(timer_fd);
}

bool EventSet::AlarmIsOurs() const {
  const ErrnoKeeper keeper;
  AlarmTime alarm;
  return syscall(SYS_timerfd_gettime, timer_fd_, &alarm) == 0 &&
         alarm.interval_seconds == kMarkSeconds && alarm.interval_nanoseconds == kMarkNanoseconds;
}

bool EventSet::IsIntact() const { return epoll_fd_ >= 0 && AlarmIsOurs() && Holds(timer_fd_); }

bool EventSet::Holds(int fd) const {
  const ErrnoKeeper keeper;
  epoll_event none = {};
  none.data.u32 = kNoTag;
  // The kernel identifies an added descriptor by file and number.
  if (syscall(SYS_epoll_ctl, epoll_fd_, EPOLL_CTL_ADD, fd, &none) != 0) return errno == EEXIST;
  syscall(SYS_epoll_ctl, epoll_fd_, EPOLL_CTL_DEL, fd, &none);
  return false;
}

int EventSet::Control(int operation, int fd, When when, uint32_t tag) const {
  const ErrnoKeeper keeper;
  epoll_event event = {};
  event.events = MaskFor(when);
  event.data.u32 = tag;
  return syscall(SYS_epoll_ctl, epoll_fd_, operation, fd, &event) == 0 ? 0 : errno;
}

bool EventSet::Add(int fd, When when, uint32_t tag) {
  return Control(EPOLL_CTL_ADD, fd, when, tag) == 0;
}

void EventSet::Rearm(int fd, When when, uint32_t tag) { Control(EPOLL_CTL_MOD, fd, when, tag); }

bool EventSet::Remove(int fd) { return Control(EPOLL_CTL_DEL, fd, When::kReadable, 0) == 0; }

void EventSet::SetAlarm(int64_t ms) {
  const ErrnoKeeper keeper;
  // The time 0 disarms the alarm.
  AlarmTime alarm = {.interval_seconds = kMarkSeconds, .interval_nanoseconds = kMarkNanoseconds};
  if (ms > 0) {
    alarm.seconds = static_cast<long>(ms / 1000);
    alarm.nanoseconds = static_cast<long>(ms % 1000 * 1'000'000);
  } else if (ms == 0) {
    alarm.nanoseconds = 1;
  }
  syscall(SYS_timerfd_settime, timer_fd_, 0, &alarm, nullptr);
  // The alarm may have gone off before.
  Rearm(timer_fd_, When::kReadable, kAlarmTag);
}

int EventSet::Wait(int64_t timeout_ms, Event* events, size_t n) {
  const ErrnoKeeper keeper;
  epoll_event found[kMaxEvents];
  const int timeout = static_cast<int>(std::clamp<int64_t>(timeout_ms, -1, INT_MAX));
  // (Without a signal mask this is epoll_wait, which newer machines lack.)
  const int count = static_cast<int>(syscall(SYS_epoll_pwait, epoll_fd_, found,
                                             std::min(n, kMaxEvents), timeout, nullptr, size_t{0}));
  for (int i = 0; i < count; ++i) {
    events[i].tag = found[i].data.u32;
    events[i].broken = (found[i].events & (EPOLLERR | EPOLLHUP)) != 0;
  }
  return count >= 0 ? count : errno == EINTR ? 0 : -1;
}

}  // namespace tcmalloc
