// SPDX-License-Identifier: BSD-3-Clause
// The descriptors for events about memory pressure, joined in one, and what happens when it is
// readable.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "instruments/pressure/config.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "process/instrument_records.h"

namespace tcmalloc {

// EventSet, the descriptors of the library in one, and the numbers of these descriptors.

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

// PressureMonitor: several sources of events about memory pressure, joined in one descriptor. When
// it is readable, Handle reads the sources, asks the policy (config.h) what to do, calls the
// action, and sets the alarm for the next reading.
//
// After an event a source is disarmed until the policy would act on it again: so a storm of events
// costs one wake-up per action. A source that breaks (its group was removed, the other end closed)
// is dropped and counted; the others stay.
//
// Some programs close descriptors that they did not open, and the numbers are used again for their
// own files. So before a descriptor is read, armed or closed, EventSet::Holds checks that it is
// still the descriptor that was opened.
//
// The caller opens the sources and measures memory (World), so that tests can replace both.
//
// Thread safety: none; one thread at a time may use it, and another call Wake. Never allocates.
// Cost of Handle: one reading, two if it acts, and some ten system calls.

enum class PressureSource : uint8_t {
  kStall,      // a PSI trigger: an event each time, nothing to read
  kStream,     // an event if there is input, which is read and dropped
  kHighCount,  // memory.events of the control group: an event if its "high" or "max" counter has
               // risen
  kThreshold,  // an eventfd that only causes a reading
};

class PressureMonitor {
 public:
  static constexpr size_t kMaxSources = 8;

  struct World {
    void* context = nullptr;
    int64_t (*now_ms)() = nullptr;
    // The memory in use, by level, and the memory in use by the whole process. `read` may add and
    // remove sources.
    PressureReadings (*read)(void* context) = nullptr;
    uint64_t (*in_use)(void* context) = nullptr;
    // Acts on a level; returns the bytes moved.
    size_t (*act)(void* context, int level) = nullptr;
  };

  PressureMonitor(const World& world, int64_t interval_ms, PressureCounts& counts)
      : world_(world), policy_(interval_ms), counts_(counts) {}
  PressureMonitor(const PressureMonitor&) = delete;
  PressureMonitor& operator=(const PressureMonitor&) = delete;
  ~PressureMonitor() { Close(); }

  // False on failure, for which open_error() is the errno.
  bool Open();
  int open_error() const { return events_.open_error(); }
  // Takes ownership of the descriptor. If the monitor cannot listen to it, closes it and returns
  // false.
  bool AddSource(int fd, PressureSource source);
  // Removes all sources of a kind, to replace them.
  void RemoveSources(PressureSource kind);
  void Close();
  // Ends the wait of another thread in Handle, or its next one.
  void Wake();
  int fd() const { return events_.fd(); }
  // True if the monitor's own descriptors are still open.
  bool IsIntact() const { return events_.IsIntact(); }
  size_t num_sources() const;

  // Waits for an event, at most `timeout_ms` (negative: without limit), and acts on it. Returns the
  // level of the action, 0 for none; negative if the program has closed the descriptors, as daemons
  // do. Then the monitor has no source any more.
  int Handle(int64_t timeout_ms);

 private:
  struct Source {
    int fd = -1;
    PressureSource kind = PressureSource::kStall;
    // True if the source had an event since the last decision.
    bool had_event = false;
    bool disarmed = false;
    int64_t disarmed_until_ms = 0;
    uint64_t high_count = 0;
  };

  static EventSet::When WhenOf(PressureSource kind);
  // Reads the event of the source. True if it asks for an action.
  bool ReadEvent(Source* source);
  void Remove(Source* source);
  // Removes a source that is broken.
  void Drop(Source* source);
  void Abandon();
  int Act(bool event);
  // Schedules the rearming of the sources that had an event: when the policy would act on them
  // again.
  void ScheduleRearm(int64_t now_ms);
  // Arms sources that are due, and sets the alarm for the others and for the next reading.
  void Rearm();

  const World world_;
  PressurePolicy policy_;
  PressureCounts& counts_;
  EventSet events_;
  std::array<Source, kMaxSources> sources_{};
  // The readings of this wake-up; those after the action if there was one.
  PressureReadings readings_{};
};

}  // namespace tcmalloc
