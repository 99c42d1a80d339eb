// SPDX-License-Identifier: BSD-3-Clause
// The tables of processes that the live view shows, made from their figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heap/process_figures.h"
#include "heap/thread_caches.h"
#include "report/call_sites.h"
#include "report/top_model.h"

namespace cli {

struct ThreadRow {
  CacheInfo cache;
  std::string name;  // of the thread
};

// The bytes that were allocated, by the samples so far.
struct SampleCount {
  int64_t time_ms = 0;
  uint64_t samples = 0;
  uint64_t interval = 0;  // mean bytes between samples
};

// A process at two moments.
struct ProcessView {
  ProcessFigures now;
  std::optional<ProcessFigures> before;
  std::string version;  // of the library; empty for another malloc, which `allocator` names
  std::string allocator;
  std::vector<ThreadRow> threads;
  // Set for a library that takes samples. The object that made the sites owns their names.
  std::optional<SampleCount> samples;
  std::optional<SampleCount> samples_before;
  std::vector<CallSite> sites;
  std::vector<ProcessFigures> history;  // the oldest first
};

// Returns the rate at which the memory in use grew, in bytes per second; nullopt before two
// readings.
std::optional<double> GrowthPerSecond(const ProcessView& view);

// Returns the bytes per second that the program allocates, whether freed since or not. Nullopt
// without samples.
std::optional<double> AllocatedPerSecond(const ProcessView& view);

TopData DataOfProcesses(const std::vector<ProcessView>& processes);
TopData DataOfProcess(const ProcessView& view);

}  // namespace cli
