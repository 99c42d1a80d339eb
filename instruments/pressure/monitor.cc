// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/monitor.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <optional>

#include "instruments/pressure/config.h"
#include "instruments/pressure/event_sources.h"
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

namespace {

// Returns how often the group reached a limit.
std::optional<uint64_t> HighCount(int fd) {
  const std::optional<MemoryEvents> events = ReadMemoryEvents(fd);
  if (!events.has_value()) return std::nullopt;
  return events->high + events->max;
}

}  // namespace

bool PressureMonitor::Open() {
  if (!events_.Open()) return false;
  // The first reading is due at once.
  events_.SetAlarm(0);
  return true;
}

EventSet::When PressureMonitor::WhenOf(PressureSource kind) {
  return kind == PressureSource::kStream || kind == PressureSource::kThreshold
             ? EventSet::When::kReadable
             : EventSet::When::kExceptional;
}

bool PressureMonitor::AddSource(int fd, PressureSource kind) {
  fd = MoveDescriptorUp(fd);
  for (size_t i = 0; i < kMaxSources; ++i) {
    if (sources_[i].fd >= 0) continue;
    if (!events_.Add(fd, WhenOf(kind), static_cast<uint32_t>(i))) break;
    sources_[i] = {.fd = fd, .kind = kind};
    if (kind == PressureSource::kHighCount) sources_[i].high_count = HighCount(fd).value_or(0);
    counts_.sources.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  tcmalloc::Close(fd);
  counts_.sources_failed.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void PressureMonitor::RemoveSources(PressureSource kind) {
  for (Source& source : sources_) {
    if (source.fd >= 0 && source.kind == kind) Remove(&source);
  }
}

void PressureMonitor::Remove(Source* source) {
  const int fd = source->fd;
  // The source is cleared before its descriptor is closed, as in EventSet::Close.
  *source = Source();
  if (events_.Remove(fd)) tcmalloc::Close(fd);
  counts_.sources.fetch_sub(1, std::memory_order_relaxed);
}

// A forked child shares the set with its parent, so the sources stay in it.
void PressureMonitor::Close() {
  const bool is_intact = IsIntact();
  for (Source& source : sources_) {
    if (source.fd < 0) continue;
    const int fd = source.fd;
    source = Source();
    if (is_intact && events_.Holds(fd)) tcmalloc::Close(fd);
    counts_.sources.fetch_sub(1, std::memory_order_relaxed);
  }
  events_.Close();
}

void PressureMonitor::Wake() {
  if (IsIntact()) events_.SetAlarm(0);
}

void PressureMonitor::Abandon() {
  counts_.sources_failed.fetch_add(static_cast<unsigned>(num_sources()), std::memory_order_relaxed);
  Close();
}

size_t PressureMonitor::num_sources() const {
  size_t n = 0;
  for (const Source& source : sources_) n += source.fd >= 0 ? 1 : 0;
  return n;
}

void PressureMonitor::Drop(Source* source) {
  Remove(source);
  counts_.sources_failed.fetch_add(1, std::memory_order_relaxed);
}

bool PressureMonitor::ReadEvent(Source* source) {
  source->had_event = true;
  switch (source->kind) {
    case PressureSource::kStall:
      return true;
    case PressureSource::kStream:
      if (DiscardInput(source->fd)) return true;
      Drop(source);
      return false;
    case PressureSource::kThreshold:
      DiscardInput(source->fd);
      return false;
    case PressureSource::kHighCount: {
      const std::optional<uint64_t> now = HighCount(source->fd);
      if (!now.has_value()) {
        Drop(source);
        return false;
      }
      const uint64_t before = source->high_count;
      source->high_count = *now;
      return *now > before;
    }
  }
  return false;
}

int PressureMonitor::Act(bool event) {
  const int64_t now_ms = world_.now_ms();
  readings_ = world_.read(world_.context);
  const int by_use = policy_.DueByUse(now_ms, readings_);
  const int by_event = event ? policy_.DueByEvent(now_ms) : 0;
  const int level = std::max(by_use, by_event);
  if (level == 0) return 0;
  const size_t moved = world_.act(world_.context, level);
  // The time is read again, since the action takes time.
  const int64_t done_ms = world_.now_ms();
  readings_ = world_.read(world_.context);
  if (by_use > 0) {
    policy_.ActedByUse(done_ms, moved, readings_[static_cast<size_t>(by_use) - 1].in_use);
  }
  if (by_event > 0) policy_.ActedByEvent(done_ms, moved, world_.in_use(world_.context));
  return level;
}

void PressureMonitor::Rearm() {
  const int64_t now_ms = world_.now_ms();
  int64_t next_ms = PressurePolicy::NextReadingMs(readings_);
  for (size_t i = 0; i < kMaxSources; ++i) {
    Source& source = sources_[i];
    if (source.fd < 0 || !source.disarmed) continue;
    const int64_t wait_ms = source.disarmed_until_ms - now_ms;
    if (wait_ms > 0) {
      next_ms = next_ms < 0 ? wait_ms : std::min(next_ms, wait_ms);
      continue;
    }
    source.disarmed = false;
    events_.Rearm(source.fd, WhenOf(source.kind), static_cast<uint32_t>(i));
  }
  events_.SetAlarm(next_ms);
}

void PressureMonitor::ScheduleRearm(int64_t now_ms) {
  for (Source& source : sources_) {
    if (source.fd < 0 || !source.had_event) continue;
    source.had_event = false;
    source.disarmed = true;
    // Thresholds only cause a reading: they are armed again as often as figures near a threshold
    // are read anyway.
    const bool paced = source.kind != PressureSource::kThreshold;
    source.disarmed_until_ms =
        now_ms + std::max(kNearMs, paced ? policy_.EventsDisarmedMs(now_ms) : 0);
  }
}

int PressureMonitor::Handle(int64_t timeout_ms) {
  EventSet::Event ready[kMaxSources + 1];
  const int n = IsIntact() ? events_.Wait(timeout_ms, ready, kMaxSources + 1) : -1;
  if (n == 0) return 0;
  // The program may have closed the descriptors during the wait.
  if (n < 0 || (timeout_ms != 0 && !IsIntact())) {
    Abandon();
    return -1;
  }
  bool event = false;
  for (int i = 0; i < n; ++i) {
    if (ready[i].tag >= kMaxSources) continue;
    Source& source = sources_[ready[i].tag];
    if (source.fd < 0) continue;
    const bool broken = ready[i].broken && source.kind != PressureSource::kHighCount;
    if (broken || !events_.Holds(source.fd)) {
      Drop(&source);
      continue;
    }
    const bool wants_action = ReadEvent(&source);
    if (wants_action) counts_.events.Add(1);
    event |= wants_action;
  }
  const int level = Act(event);
  ScheduleRearm(world_.now_ms());
  Rearm();
  return level;
}

}  // namespace tcmalloc
