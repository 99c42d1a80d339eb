// SPDX-License-Identifier: BSD-3-Clause
// ProcessFigures: the kernel's figures of a process, and those of its heap, at one moment. The
// process is not stopped.
#pragma once

#include <cstdint>
#include <optional>

#include "heap/record.h"
#include "heap/statistics.h"
#include "image/process.h"

namespace cli {

struct ProcessFigures {
  int64_t time_ms = 0;  // since 1970
  ProcessInfo info;
  std::optional<Statistics> stats;  // none if it has another malloc, or has not allocated yet

  uint64_t figure(std::string_view name) const {
    return stats.has_value() ? stats->figure(name) : 0;
  }
  // Backed memory of the heap that holds no object in use.
  uint64_t overhead_bytes() const { return figure("actual_bytes") - figure("in_use_bytes"); }
};

// `target` is null for a process on another malloc. Throws Failure when the process has ended.
ProcessFigures ReadProcessFigures(pid_t pid, const Target* target);

}  // namespace cli
