// SPDX-License-Identifier: BSD-3-Clause
// Statistics as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "heap/statistics.h"
#include "image/process.h"

namespace cli {

// The members of tcmalloc_stats_json, in its order.
nlohmann::ordered_json StatisticsJson(const Statistics& stats);
// First the use of the memory, then the size classes that have spans.
std::string StatisticsText(const Statistics& stats, const ProcessInfo& info,
                           const std::string& version);
// For a process on another malloc, or without a heap.
std::string KernelFiguresText(const KernelFigures& memory);
nlohmann::ordered_json ProcessJson(const ProcessInfo& info);

}  // namespace cli
