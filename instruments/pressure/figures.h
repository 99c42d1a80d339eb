// SPDX-License-Identifier: BSD-3-Clause
// Figures for the memory that the process, its control group and the system use and have, those
// that the thresholds of a configuration need, and the threshold of a level in bytes. As in
// os/memory_map.h, only anonymous memory counts as used: the OS by itself reclaims the page cache,
// which a group's use includes.
//
// Source: the kernel's documentation, proc.rst, cgroup-v1/memory.rst and cgroup-v2.rst. Thread
// safety: any. Never allocates, is no cancellation point, keeps errno. A function returns no value
// if the figure cannot be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "instruments/pressure/config.h"
#include "instruments/pressure/event_sources.h"
#include "os/cgroup.h"

namespace tcmalloc {

// Resident anonymous bytes of the process (ProcessMemory). `root` is a prefix of the file's path.
std::optional<uint64_t> ReadProcessAnonymousBytes(std::string_view root = "");

// Anonymous bytes of a group and its descendants. `directory` is a result of FindCgroupDirectories;
// no value for an empty one. Cost: the kernel sums its counters of all CPUs, tens to some hundreds
// of microseconds.
std::optional<uint64_t> ReadCgroupAnonymousBytes(CgroupVersion version, std::string_view directory);

struct SystemMemory {
  uint64_t total_bytes = 0;
  // The kernel's estimate of what programs may allocate before swapping begins.
  uint64_t available_bytes = 0;
};

// Reads /proc/meminfo. In a container, too, the figures are those of the machine. `root` as above.
// Cost: tens of microseconds.
std::optional<SystemMemory> ReadSystemMemory(std::string_view root = "");

// A line of memory.stat, memory.events or /proc/meminfo: a name and a number. In /proc/meminfo a
// colon follows the name, and most numbers have the unit KiB.
struct MemoryFigure {
  std::string_view name;  // refers to the line, without the colon
  uint64_t value = 0;     // in bytes if the line has a unit
};
// False for a malformed line, and for a number of more than 64 bits.
bool ParseMemoryFigure(std::string_view line, MemoryFigure* figure);

// Memory in use by the process, the heap, the control group and the system, in bytes.
//
// Only the anonymous memory of a control group counts. The kernel drops the page cache by itself
// when memory is short, and the page cache fills every group that reads files for long enough.
struct PressureFigures {
  static constexpr uint64_t kUnknown = UINT64_MAX;
  // The control group's anonymous memory, and its limit; kUnknown if it has none.
  uint64_t cgroup_in_use = kUnknown;
  uint64_t cgroup_limit = kUnknown;
  // The heap's backed memory, and the lower of its limits.
  uint64_t heap_in_use = kUnknown;
  uint64_t heap_limit = kUnknown;
  // The machine's memory that is not available, and its total memory.
  uint64_t system_in_use = kUnknown;
  uint64_t system_memory = kUnknown;
  // The process's anonymous memory.
  uint64_t process_in_use = kUnknown;
};

// Returns a reading without a threshold if a figure that it needs is unknown.
inline PressureReading ReadingFor(const PressureThreshold& threshold,
                                  const PressureFigures& figures) {
  using Of = PressureThreshold::Of;
  constexpr uint64_t kUnknown = PressureFigures::kUnknown;
  const auto part = [&threshold](uint64_t in_use, uint64_t whole) -> PressureReading {
    if (in_use == kUnknown || whole == kUnknown) return {};
    // Divides first, so that values near the largest number do not overflow.
    return {in_use, whole / 100 * threshold.value + whole % 100 * threshold.value / 100};
  };
  switch (threshold.of) {
    case Of::kNone:
      return {};
    case Of::kBytes:
      if (figures.process_in_use == kUnknown) return {};
      return {figures.process_in_use, threshold.value};
    case Of::kCgroup:
      return part(figures.cgroup_in_use, figures.cgroup_limit);
    case Of::kHeap:
      return part(figures.heap_in_use, figures.heap_limit);
    case Of::kSystem:
      return part(figures.system_in_use, figures.system_memory);
    case Of::kLimit:
      if (figures.cgroup_limit != kUnknown && figures.cgroup_in_use != kUnknown) {
        return part(figures.cgroup_in_use, figures.cgroup_limit);
      }
      if (figures.heap_limit != kUnknown && figures.heap_in_use != kUnknown) {
        return part(figures.heap_in_use, figures.heap_limit);
      }
      return part(figures.system_in_use, figures.system_memory);
  }
  return {};
}

struct Heap;

// The figures of this process, its control group and its machine that the thresholds of a
// configuration need. The figures are read at each call; limits, which seldom change, every
// kCgroupRereadMs. A figure that cannot be read is unknown. Thread safety: one thread at a time.
// Never allocates. Cost: up to three files, 3 to 10 microseconds each on machines with few CPUs;
// the kernel adds up a group's counters of all CPUs.
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
