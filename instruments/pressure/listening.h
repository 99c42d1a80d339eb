// SPDX-License-Identifier: BSD-3-Clause
// How the process responds to memory pressure: what it listens to, and the action of each level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "instruments/pressure/config.h"
#include "instruments/pressure/figures.h"
#include "instruments/pressure/monitor.h"
#include "instruments/pressure/pressure.h"
#include "os/clock.h"

namespace tcmalloc {

struct Heap;

// Listening is the state of a process that listens to memory pressure. It has the sources that the
// configuration names and the system has, the figures for the thresholds, and the program's
// listeners, and it carries out the actions. The caller decides which thread waits, and when.
//
// Thresholds of control groups of version 1 are registered with the kernel in bytes. They are
// registered again if the group's limit has changed when it is read
// (instruments/pressure/figures.h).
//
// Thread safety: none; one thread at a time may use it. Never allocates, except in the program's
// listeners.
class Listening {
 public:
  // `root` is a prefix of all file names; it and `listeners` must outlive the object. `now_ms` is
  // the clock that paces actions and readings of limits.
  Listening(Heap& heap, const PressureConfig& config, PressureListeners& listeners,
            std::string_view root = "", int64_t (*now_ms)() = &CoarseMilliseconds);
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  // False on failure: see PressureMonitor::Open. Sources that cannot be opened are counted. A
  // failure of MEMORY_PRESSURE_WATCH is also reported once, since a person or systemd set it for
  // this process.
  bool Open();
  PressureMonitor& monitor() { return monitor_; }

 private:
  static Listening& Self(void* self) { return *static_cast<Listening*>(self); }

  PressureReadings ReadLevels();
  size_t Act(int level);
  void Add(int fd_or_error, PressureSource source);
  // Adds the source that systemd offers. True if it replaces the system's own reports of stalls.
  bool AddWatch();
  void AddPsi();
  void AddGroupEvents();
  // Replaces the registered thresholds.
  void AddGroupThresholds(uint64_t limit);

  Heap& heap_;
  PressureListeners& listeners_;
  const PressureConfig config_;
  const std::string_view root_;
  int64_t (*const now_ms_)();
  ProcessFigures figures_;
  PressureMonitor monitor_;
  // The limit for which the thresholds are registered.
  uint64_t registered_limit_ = PressureFigures::kUnknown;
};

// Memory for the one of the process.
alignas(Listening) extern char listening_storage[];

}  // namespace tcmalloc
