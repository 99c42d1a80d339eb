// SPDX-License-Identifier: BSD-3-Clause
// Several descriptors and an alarm clock behind one descriptor (epoll and timerfd of Linux), which
// can itself be waited for, by poll, epoll or select. Whoever owns descriptors adds them and closes
// them; the set's own are close-on-exec.
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

  EventSet() = default;
  EventSet(const EventSet&) = delete;
  EventSet& operator=(const EventSet&) = delete;
  ~EventSet() { Close(); }

  // False when the process has no descriptors left.
  bool Open();
  void Close();
  // Readable when there is an event. Not to be read.
  int fd() const { return epoll_fd_; }

  // Events of `fd` are told with `tag`, each time once: then it is deaf until Rearm. False when it
  // is of a kind that cannot be waited for.
  bool Add(int fd, When when, uint32_t tag);
  void Rearm(int fd, When when, uint32_t tag);
  void Remove(int fd);

  // Tells kAlarmTag in so many milliseconds, instead of when it was set for before; negative for
  // never.
  void SetAlarm(int64_t ms);

  // Up to `n` events that are there, or come within `timeout_ms`; negative waits for ever. 0 also
  // when a signal came; negative when the set is no more: somebody has closed its descriptors.
  int Wait(int64_t timeout_ms, Event* events, size_t n);
  // Forgets descriptors that somebody has closed: their numbers may be others' by now.
  void Abandon();

 private:
  bool Control(int operation, int fd, When when, uint32_t tag);

  int epoll_fd_ = -1;
  int timer_fd_ = -1;
};

}  // namespace tcmalloc
