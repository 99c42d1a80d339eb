// SPDX-License-Identifier: BSD-3-Clause
// EventSet, the descriptors of the library in one, and the numbers of these descriptors.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {

// Gives the library's descriptors high numbers. A program may rely on the next open returning the
// lowest number that it just closed (daemons reopen 0 to 2 that way). A program that closes all
// descriptors that it did not open gets low numbers again afterwards, so it does not reuse the
// library's numbers. The numbers stay below 1024, the usual limit and that of `select`.
//
// Thread safety: any. Never allocates, is no cancellation point, keeps errno. Cost: two system
// calls.
//
// Moves an open file to a descriptor of kFirstDescriptor or more, which exec closes. Returns `fd`
// itself if the process may not have such numbers. Requires: no other code knows the descriptor
// yet.
inline int MoveDescriptorUp(int fd) {
  if (fd < 0 || fd >= kFirstDescriptor) return fd;
  const ErrnoKeeper keeper;
#ifdef SYS_fcntl
  const long moved = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
#else
  const long moved = syscall(SYS_fcntl64, fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
#endif
  if (moved < 0) return fd;
  Close(fd);
  return static_cast<int>(moved);
}

// EventSet: several descriptors and an alarm in one descriptor (Linux: epoll and timerfd), on
// which poll, epoll or select can wait. The owner of a descriptor adds and closes it. The set's own
// descriptors are close-on-exec and have high numbers (MoveDescriptorUp).
//
// The program may close any of them and reuse the number for its own file, which the set must not
// use or close. So the set can check that its own descriptors, and the added ones, are unchanged.
// It cannot notice a descriptor that is closed between the check and its use.
//
// Thread safety: one thread at a time may call Wait, any thread the other functions. Never
// allocates, is no cancellation point, keeps errno. Cost: a system call per function.
class EventSet {
 public:
  // The state of a descriptor that causes an event.
  enum class When : uint8_t {
    kReadable,
    kExceptional,  // reported by PSI triggers, and by changed files of control groups
  };
  struct Event {
    uint32_t tag = 0;
    // True if the descriptor will have no further events, because its other end or its source is
    // gone.
    bool broken = false;
  };
  static constexpr uint32_t kAlarmTag = UINT32_MAX;
  // The tag of a spurious event, which the check in Holds causes.
  static constexpr uint32_t kNoTag = kAlarmTag - 1;

  EventSet() = default;
  EventSet(const EventSet&) = delete;
  EventSet& operator=(const EventSet&) = delete;
  ~EventSet() { Close(); }

  // False on failure; open_error() is the errno: the process has no descriptors left, or a sandbox
  // forbids the calls.
  bool Open();
  int open_error() const { return open_error_; }
  // Leaves descriptors open that may belong to the program.
  void Close();
  // True if the set's descriptors are unchanged.
  bool IsIntact() const;
  // True if the descriptor is still the file that was added with this number. Requires: IsIntact().
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
  // Returns 0 also when a signal interrupted the wait, and a negative number when the program has
  // closed the set's descriptor.
  int Wait(int64_t timeout_ms, Event* events, size_t n);

 private:
  // Returns 0 or an errno.
  int Control(int operation, int fd, When when, uint32_t tag) const;
  bool AlarmIsOurs() const;

  int epoll_fd_ = -1;
  int timer_fd_ = -1;
  int open_error_ = 0;
};

}  // namespace tcmalloc
