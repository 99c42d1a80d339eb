// SPDX-License-Identifier: BSD-3-Clause
// EventSet: several descriptors and an alarm in one descriptor (Linux: epoll and timerfd), on
// which poll, epoll or select can wait. The owner of a descriptor adds and closes it. The set's own
// are close-on-exec and have high numbers (tools/pressure/os/high_descriptor.h).
//
// The program may close any of them and reuse the number for a file of its own, which the set must
// not use or close. So the set can check that its own descriptors, and the added ones, are
// unchanged. It cannot notice a descriptor that is closed between the check and its use.
//
// Thread safety: Wait by one thread at a time, the rest by any. Never allocates, no cancellation
// point; keeps errno. Cost: a system call each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

class EventSet {
 public:
  // The state of a descriptor that is an event.
  enum class When : uint8_t {
    kReadable,
    kExceptional,  // reported by PSI triggers, and by changed files of control groups
  };
  struct Event {
    uint32_t tag = 0;
    // The descriptor will have no further events: its other end or its source is gone.
    bool broken = false;
  };
  static constexpr uint32_t kAlarmTag = UINT32_MAX;
  // A spurious event, from the check in Holds.
  static constexpr uint32_t kNoTag = kAlarmTag - 1;

  EventSet() = default;
  EventSet(const EventSet&) = delete;
  EventSet& operator=(const EventSet&) = delete;
  ~EventSet() { Close(); }

  // False when the process has no descriptors left.
  bool Open();
  // Leaves descriptors open that may belong to the program.
  void Close();
  // The set's descriptors are unchanged.
  bool IsIntact() const;
  // The descriptor is the file that was added with this number. Requires: IsIntact().
  bool Holds(int fd) const;
  // Readable when there is an event. Must not be read.
  int fd() const { return epoll_fd_; }

  // Reports an event of `fd` with `tag`, once; no further event until Rearm. False when it is
  // impossible to wait for the descriptor.
  bool Add(int fd, When when, uint32_t tag);
  void Rearm(int fd, When when, uint32_t tag);
  // False when `fd` is not the file that was added.
  bool Remove(int fd);

  // Sets the alarm: an event kAlarmTag in `ms` milliseconds. Replaces the previous alarm; a
  // negative `ms` clears it.
  void SetAlarm(int64_t ms);

  // Waits up to `timeout_ms` for events and returns up to `n`; a negative timeout waits forever.
  // Returns 0 also when a signal came, and a negative number when someone has closed the set's
  // descriptor.
  int Wait(int64_t timeout_ms, Event* events, size_t n);

 private:
  bool Control(int operation, int fd, When when, uint32_t tag) const;
  bool AlarmIsOurs() const;

  int epoll_fd_ = -1;
  int timer_fd_ = -1;
};

}  // namespace tcmalloc
