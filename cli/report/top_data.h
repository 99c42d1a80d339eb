// SPDX-License-Identifier: BSD-3-Clause
// What the live view shows of processes, from their figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heap/process_figures.h"
#include "heap/thread_caches.h"
#include "report/top_model.h"

namespace cli {

struct ThreadRow {
  CacheInfo cache;
  std::string name;  // of the thread
};

// A process at two moments.
struct ProcessView {
  ProcessFigures now;
  std::optional<ProcessFigures> before;
  std::string version;  // of the library; empty: another malloc, which `allocator` names
  std::string allocator;
  std::vector<ThreadRow> threads;
  std::vector<ProcessFigures> history;  // the oldest first
};

// The rate at which the memory in use grew, in bytes per second; nothing before two readings.
std::optional<double> GrowthPerSecond(const ProcessView& view);

TopData DataOfProcesses(const std::vector<ProcessView>& processes);
TopData DataOfProcess(const ProcessView& view);

}  // namespace cli
