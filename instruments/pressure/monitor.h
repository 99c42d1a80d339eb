// SPDX-License-Identifier: BSD-3-Clause
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
// Thread safety: none; one thread at a time may use it. Never allocates. Cost of Handle: one
// reading, two if it acts, and some ten system calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "instruments/pressure/config.h"
#include "instruments/pressure/event_set.h"
#include "process/instrument_records.h"

namespace tcmalloc {

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
