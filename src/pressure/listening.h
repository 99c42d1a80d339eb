// SPDX-License-Identifier: BSD-3-Clause
// Listening: everything that one process's listening to memory pressure needs: the sources that a
// configuration asks for, opened where the system has them, the figures for its thresholds, the
// program's listeners, the actions. Who waits and when is the caller's affair.
//
// Thresholds of control groups of version 1 are registered with the kernel in bytes: anew when the
// group's limit has changed, which is found out when it is read again (pressure/process_figures.h).
//
// Thread safety: none; one thread at a time. Never allocates, but in the program's listeners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "pressure/config.h"
#include "pressure/listeners.h"
#include "pressure/monitor.h"
#include "pressure/process_figures.h"

namespace tcmalloc {

struct Heap;

class Listening {
 public:
  // `root` is put in front of the names of all files; it and `listeners` outlive the object.
  Listening(Heap& heap, const PressureConfig& config, PressureListeners& listeners,
            std::string_view root = "");
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  // False when the process has no descriptors left. What cannot be opened is counted; that
  // MEMORY_PRESSURE_WATCH cannot is also said, once, since somebody set it for this process.
  bool Open();
  PressureMonitor& monitor() { return monitor_; }

 private:
  static Listening& Self(void* self) { return *static_cast<Listening*>(self); }

  PressureReadings ReadLevels();
  size_t Act(int level);
  void Add(int fd_or_error, PressureSource source);
  // What the service manager offers. True when it is to be the only one that speaks of stalls.
  bool AddWatch();
  void AddPsi();
  void AddGroupEvents();
  // In the place of those that there are.
  void AddGroupThresholds(uint64_t limit);

  Heap& heap_;
  PressureListeners& listeners_;
  const PressureConfig config_;
  const std::string_view root_;
  ProcessFigures figures_;
  PressureMonitor monitor_;
  // The group's limit that its thresholds were registered for.
  uint64_t registered_limit_ = PressureFigures::kUnknown;
};

}  // namespace tcmalloc
