// SPDX-License-Identifier: BSD-3-Clause
// The tables of processes that the live view shows, made from their figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heap/memory_use.h"
#include "heap/thread_caches.h"
#include "report/profile_report.h"
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

// A process now and at the moments before.
struct ProcessView {
  ProcessFigures now;
  std::string version;  // of the library; empty for another malloc, which `allocator` names
  std::string allocator;
  std::vector<ThreadRow> threads;
  // Set for a library that takes samples. The object that made the sites owns their names.
  std::optional<SampleCount> samples;
  std::vector<CallSite> sites;
  std::vector<ProcessFigures> history;  // the oldest first, the last is `now`
  // The oldest first. Each element is of the time of an entry of `history`; some may be missing.
  std::vector<SampleCount> sample_history;
};

// Rates of the last seconds, in bytes per second. If both are set, they are of the same time.
struct Rates {
  double seconds = 0;
  std::optional<double> growth;  // growth of the memory in use; nullopt before two readings
  // The bytes that were allocated per second, whether freed since or not, by the samples; nullopt
  // without samples.
  std::optional<double> allocated;
};
Rates RatesOf(const ProcessView& view);

TopData DataOfProcesses(const std::vector<ProcessView>& processes);
TopData DataOfProcess(const ProcessView& view);

}  // namespace cli
