// SPDX-License-Identifier: BSD-3-Clause
// Several descriptors and an alarm clock behind one descriptor (epoll and timerfd of Linux), which
// can itself be waited for, by poll, epoll or select. Whoever owns descriptors adds them and closes
// them; the set's own are close-on-exec, and have high numbers (os/high_descriptor.h).
//
// The program may close any of them and get the number for a file of its own: to work on that
// instead, or close it, would be to destroy what the program has. So the set can tell whether its
// own descriptors, and those that were added, are still what they were. What nobody can see is a
// descriptor that is closed between that question and its use.
//
// Thread safety: Wait by one thread at a time, the rest by any. Never allocates, no cancellation
// point; errno is kept. Cost: a system call each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

class EventSet {
 public:
  // When a descriptor has something.
  enum class When : uint8_t {
    kReadable,
    kExceptional,  // what PSI triggers and files of control groups that have changed report
  };
  struct Event {
    uint32_t tag = 0;
    // The descriptor will never have anything again: its other end is gone, or its source.
    bool broken = false;
  };
  static constexpr uint32_t kAlarmTag = UINT32_MAX;
  // Told by mistake, if at all: of what Holds looked at just then.
  static constexpr uint32_t kNoTag = kAlarmTag - 1;

  EventSet() = default;
  EventSet(const EventSet&) = delete;
  EventSet& operator=(const EventSet&) = delete;
  ~EventSet() { Close(); }

  // False when the process has no descriptors left.
  bool Open();
  // Leaves open what may be somebody else's.
  void Close();
  // The set's descriptors are its own.
  bool IsIntact() const;
  // The descriptor is the very file that was added with this number. Requires: IsIntact().
  bool Holds(int fd) const;
  // Readable when there is an event. Not to be read.
  int fd() const { return epoll_fd_; }

  // Events of `fd` are told with `tag`, each time once: then it is deaf until Rearm. False when it
  // is of a kind that cannot be waited for.
  bool Add(int fd, When when, uint32_t tag);
  void Rearm(int fd, When when, uint32_t tag);
  // False when it is not what was added.
  bool Remove(int fd);

  // Tells kAlarmTag in so many milliseconds, instead of when it was set for before; negative for
  // never.
  void SetAlarm(int64_t ms);

  // Up to `n` events that are there, or come within `timeout_ms`; negative waits for ever. 0 also
  // when a signal came; negative when the set is no more: somebody has closed its descriptor.
  int Wait(int64_t timeout_ms, Event* events, size_t n);

 private:
  bool Control(int operation, int fd, When when, uint32_t tag) const;
  bool AlarmIsOurs() const;

  int epoll_fd_ = -1;
  int timer_fd_ = -1;
};

}  // namespace tcmalloc
