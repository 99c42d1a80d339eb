// SPDX-License-Identifier: BSD-3-Clause

// Report: the figures of a benchmark program's run, as one line of JSON. It is written to the file
// descriptor that the environment variable BENCH_REPORT_FD names, else to standard output.
//
//   {"program": "larson", "args": ["1", "8", ...],
//    "metrics": [{"name": "ops_per_s", "value": 1.2e7, "unit": "1/s", "better": "higher"}, ...],
//    "wall_s": .., "user_s": .., "sys_s": .., "minor_faults": .., "major_faults": ..,
//    "peak_rss_kib": .., "malloc_library": "/usr/lib/..."}
//
// The first metric is the one that is compared. Times and faults are those of the measured part,
// the peak is the whole process's. A program with a course to plot adds
//    "series": {"name": "rss", "columns": ["time_s", "rss_kib"], "rows": [[0.05, 1760], ...]}.
// The first column is time; one or more other columns follow.
//
// The constructor gathers the figures before the report itself first allocates.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/common/measured_part.h"

namespace tcmalloc::bench {

enum class Better { kHigher, kLower };

class Report {
 public:
  // Requires: part has ended.
  Report(const char* program, const MeasuredPart& part);

  void Value(const char* name, double value, const char* unit, Better better);
  // Adds the series, at most once. Each row has a value for each of the columns.
  template <size_t kColumns>
  void Series(const char* name, const char* const (&columns)[kColumns],
              std::span<const std::array<double, kColumns>> rows) {
    BeginSeries(name, columns);
    for (const auto& row : rows) AddRow(row);
    series_ += "]}";
  }
  void Write();

  long peak_rss_kib() const { return peak_rss_kib_; }

 private:
  struct Metric {
    const char* name;
    double value;
    const char* unit;
    Better better;
  };

  void BeginSeries(const char* name, std::span<const char* const> columns);
  void AddRow(std::span<const double> row);

  const long peak_rss_kib_;  // read first: construction must not change it
  const char* const program_;
  const MeasuredPart part_;
  std::vector<Metric> metrics_;
  std::string series_;  // empty, or the member of the JSON object
};

// Reports the time of a program of fixed work, and no other figure.
void ReportTime(const char* program, const MeasuredPart& part);

}  // namespace tcmalloc::bench
