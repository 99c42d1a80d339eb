// SPDX-License-Identifier: BSD-3-Clause
// A HeapSnapshot as text, in each format. Nothing here allocates, takes a lock or knows
// the heap. docs/statistics.md explains every line, and a test compares the two. Cost: a few
// nanoseconds per character; the texts with tables are some 10 KiB long.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/text.h"
#include "stats/stats.h"

namespace tcmalloc {

// Lines that begin with "MALLOC:": the sums, then single figures. From level 2 on also a line for
// each size class that has spans, and for each length of free spans. A sink gets the part before
// the tables in one piece, if its buffer has room for it.
void WriteStatsText(const HeapSnapshot& snapshot, int level, TextWriter* out);

// One JSON object, without line ends. Facts about the process come first, unless `facts` is null.
void WriteStatsJson(const HeapSnapshot& snapshot, const ProcessFacts* facts, TextWriter* out);

// OpenMetrics 1.0 text, which Prometheus reads. The collector adds the process and the time.
void WriteStatsOpenMetrics(const HeapSnapshot& snapshot, TextWriter* out);

// A named figure of the snapshot, with the same name in JSON and in OpenMetrics. The name of a
// figure in bytes ends in "_bytes".
struct StatsFigure {
  enum class Kind : unsigned char { kGauge, kCounter };

  std::string_view name;  // of a counter, without the suffix "_total"
  Kind kind;
  const char* help;  // a sentence in plain ASCII, without quotes
  size_t (*value)(const HeapStats& stats);

  const char* suffix() const { return kind == Kind::kCounter ? "_total" : ""; }
};

std::span<const StatsFigure> AllStatsFigures();

}  // namespace tcmalloc
