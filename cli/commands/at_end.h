// SPDX-License-Identifier: BSD-3-Clause
// The report of tcmalloc run about a program that is about to end.
#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "heap/statistics.h"
#include "image/process.h"
#include "image/symbolizer.h"
#include "report/diagnosis.h"
#include "report/profile_report.h"

namespace cli {

struct AtEnd {
  std::optional<ProcessInfo> info;
  std::optional<Statistics> stats;
  Diagnosis diagnosis;  // of its resident memory, if there are call sites
  std::string version;
  std::string problem;  // why there are no figures
  std::unique_ptr<Symbolizer> symbolizer;
  uint64_t interval = 0;  // of the samples; 0 if there are several, or none
  std::vector<CallSite> sites_at_peak;
  std::vector<CallSite> sites_at_end;
};

// Reads a process that is stopped and about to end, and still has its memory. Omits call sites if
// at most `small_bytes` of it were ever resident.
AtEnd LookAt(pid_t pid, uint64_t small_bytes);
// `program` is the name that the user gave.
std::string AtEndText(const AtEnd& end, const std::string& program);
nlohmann::ordered_json AtEndJson(const AtEnd& end);

}  // namespace cli
