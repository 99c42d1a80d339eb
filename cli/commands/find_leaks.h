// SPDX-License-Identifier: BSD-3-Clause
// Finds the leaked objects of a process that is stopped while its memory is copied or the process
// is forked, of a process that continues to run, or of a core file.
#pragma once

#include <vector>

#include "commands/open_process.h"
#include "heap/leak_search.h"
#include "report/leak_report.h"

namespace cli {

struct FoundLeaks {
  LeakSearch search;
  std::vector<LeakGroup> groups;
  ReadMode mode;  // its pause_ms is the longest pause
  uint64_t copied_bytes = 0;
  int pauses = 0;
  // True if the copy is not of one moment, or lacks memory, so that a reported object may not be
  // leaked.
  bool probable = false;
};

// Throws Failure, with "incomplete: " if the process cannot be read in this way.
FoundLeaks FindLeaksStopped(OpenProcess& process, const LeakOptions& options);
FoundLeaks FindLeaksForked(OpenProcess& process, const LeakOptions& options);
FoundLeaks FindLeaksRunning(OpenProcess& process, const LeakOptions& options);
FoundLeaks FindLeaksInFile(OpenProcess& process, const LeakOptions& options);

}  // namespace cli
