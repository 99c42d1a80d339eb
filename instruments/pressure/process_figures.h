// SPDX-License-Identifier: BSD-3-Clause
// The figures of this process, its control group and its machine that the thresholds of a
// configuration need. The figures are read at each call; limits, which seldom change, every
// Tuning::Limits::cgroup_reread_ms. A figure that cannot be read is unknown. Thread safety: one
// thread at a time. Never allocates. Cost: up to three files, 3 to 10 microseconds each on machines
// with few CPUs; the kernel adds up a group's counters of all CPUs.
#pragma once

#include <cstdint>
#include <string_view>

#include "instruments/pressure/cgroup_directories.h"
#include "instruments/pressure/config.h"
#include "instruments/pressure/figures.h"

namespace tcmalloc {

struct Heap;

class ProcessFigures {
 public:
  // `root` is a prefix of all file names.
  explicit ProcessFigures(Heap& heap, std::string_view root = "") : heap_(heap), root_(root) {}
  ProcessFigures(const ProcessFigures&) = delete;
  ProcessFigures& operator=(const ProcessFigures&) = delete;

  // Finds the control group of the process.
  void Begin(const PressureConfig& config);

  PressureFigures Read(int64_t now_ms);
  PressureReadings ReadLevels(int64_t now_ms);
  // The memory in use by the process; by the heap if that of the process cannot be read.
  uint64_t InUse() const;

  const CgroupDirectories& directories() const { return directories_; }
  // The limit at the last Read; PressureFigures::kUnknown if there is none.
  uint64_t cgroup_limit() const { return cgroup_limit_; }

 private:
  bool Needs(PressureThreshold::Of of) const;
  void ReadLimitWhenDue(int64_t now_ms);
  uint64_t CgroupInUse() const;

  Heap& heap_;
  const std::string_view root_;
  PressureConfig config_;
  CgroupDirectories directories_{};
  bool limit_was_read_ = false;
  int64_t limit_read_ms_ = 0;
  uint64_t cgroup_limit_ = PressureFigures::kUnknown;
};

}  // namespace tcmalloc
