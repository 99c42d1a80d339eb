// SPDX-License-Identifier: BSD-3-Clause
// PressureMonitor: several sources of events about memory pressure behind one descriptor, and what
// follows from them: when the descriptor is readable Handle finds out why, decides by the policy
// (policy.h), has the action performed, and sets the alarm for the next look.
//
// A source that has told something is deaf until the policy would hear it again, so a storm of
// events costs one wake-up for each action, however many there are. A source that breaks (its group
// was removed, the other end closed) is dropped and counted; the others go on.
//
// Programs close descriptors that they do not know, and get their numbers for files of their own.
// So nothing is read from, told or closed that was not seen a moment before to be still what was
// opened (EventSet::Holds).
//
// What a source is and how memory is measured comes from the caller (see World), so that tests have
// a world of their own.
//
// Thread safety: none; one thread at a time. Never allocates. Cost: a reading each time, two where
// something is done, and some ten system calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "os/event_set.h"
#include "pressure/policy.h"
#include "runtime/pressure_counts.h"

namespace tcmalloc {

enum class PressureSource : uint8_t {
  kStall,      // a PSI trigger: an event each time, nothing to read
  kStream,     // an event each time there is something to read, which is read and forgotten
  kHighCount,  // the control group's memory.events: an event when the counter of "high" has risen
  kThreshold,  // a counter (eventfd) that says that what is in use is to be looked at
};

class PressureMonitor {
 public:
  static constexpr size_t kMaxSources = 8;

  struct World {
    void* context = nullptr;
    int64_t (*now_ms)() = nullptr;
    // What is in use now, by level, and in all by the process. `read` may add and remove sources.
    PressureReadings (*read)(void* context) = nullptr;
    uint64_t (*in_use)(void* context) = nullptr;
    // Performs the action of a level; returns the bytes that it moved.
    size_t (*act)(void* context, int level) = nullptr;
  };

  PressureMonitor(const World& world, int64_t interval_ms, PressureCounts& counts)
      : world_(world), policy_(interval_ms), counts_(counts) {}
  PressureMonitor(const PressureMonitor&) = delete;
  PressureMonitor& operator=(const PressureMonitor&) = delete;
  ~PressureMonitor() { Close(); }

  // False when the process has no descriptors left.
  bool Open();
  // Takes over the descriptor. False, and it is closed, when it cannot be listened to.
  bool AddSource(int fd, PressureSource source);
  // Those of a kind, for the sake of others that take their place.
  void RemoveSources(PressureSource kind);
  void Close();
  int fd() const { return events_.fd(); }
  // Nobody has closed the monitor's own descriptors.
  bool IsIntact() const { return events_.IsIntact(); }
  size_t num_sources() const;

  // Waits for an event, at most `timeout_ms` (negative: for ever), and does what is due. Returns
  // the level of the action, 0 for none; negative when somebody has closed the descriptors, as
  // programs do that become daemons: then there is nothing to listen to any more.
  int Handle(int64_t timeout_ms);

 private:
  struct Source {
    int fd = -1;
    PressureSource kind = PressureSource::kStall;
    bool told = false;  // something, since the last action was decided on
    bool deaf = false;
    int64_t deaf_until_ms = 0;
    uint64_t high_count = 0;
  };

  static EventSet::When WhenOf(PressureSource kind);
  // What the source told. True when it is an event that asks for an action.
  bool Hear(Source* source);
  void Remove(Source* source);
  // One that tells nothing any more.
  void Drop(Source* source);
  void Abandon();
  int Act(bool event);
  // Those that told something are not heard until the policy would act on it again.
  void Deafen(int64_t now_ms);
  // They are heard again when it is time. Sets the alarm for that, or for the next look.
  void Rearm();

  const World world_;
  PressurePolicy policy_;
  PressureCounts& counts_;
  EventSet events_;
  std::array<Source, kMaxSources> sources_{};
  // As of this wake-up, behind the action where there was one.
  PressureReadings readings_{};
};

}  // namespace tcmalloc
