// SPDX-License-Identifier: BSD-3-Clause
// How much memory is in use of what, and what a level's threshold is then. Pure.
//
// What is compared is memory that cannot be dropped: of a control group its anonymous memory, not
// the page cache, which the kernel gives up by itself when memory runs short, and which fills every
// group that reads files for long enough.
#pragma once

#include <cstdint>

#include "pressure/config.h"
#include "pressure/policy.h"

namespace tcmalloc {

// In bytes.
struct PressureFigures {
  static constexpr uint64_t kUnknown = UINT64_MAX;
  // Of the control group: anonymous memory, and the limit, kUnknown also where there is none.
  uint64_t cgroup_in_use = kUnknown;
  uint64_t cgroup_limit = kUnknown;
  // Of the heap: memory that it has from the system, and the lower of its limits.
  uint64_t heap_in_use = kUnknown;
  uint64_t heap_limit = kUnknown;
  // Of the machine: memory that is not available, and all there is.
  uint64_t system_in_use = kUnknown;
  uint64_t system_memory = kUnknown;
  // Of the process: anonymous memory.
  uint64_t process_in_use = kUnknown;
};

// Without a threshold where a figure is not known that would be needed.
inline PressureReading ReadingFor(const PressureThreshold& threshold,
                                  const PressureFigures& figures) {
  using Of = PressureThreshold::Of;
  constexpr uint64_t kUnknown = PressureFigures::kUnknown;
  const auto part = [&threshold](uint64_t in_use, uint64_t whole) -> PressureReading {
    if (in_use == kUnknown || whole == kUnknown) return {};
    // Divided first, for what is near the largest number.
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

}  // namespace tcmalloc
