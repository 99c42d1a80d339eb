// SPDX-License-Identifier: BSD-3-Clause
// A profile as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heap/samples.h"
#include "report/call_sites.h"

namespace cli {

// "in use", "in use at the peak", "allocated".
std::string KindText(ProfileKind kind);
// Describes the accuracy of the estimates: the number of samples, and their interval.
std::string AccuracyText(const std::vector<CallSite>& sites, uint64_t interval);

// Returns the function, and its place in brackets.
std::string FrameText(const SourceFrame& frame);
// Returns a table of the `most` largest call sites: the figures of each, its function, and up to
// `callers` of its callers.
std::string CallSitesText(const std::vector<CallSite>& sites, size_t most, size_t callers = 6);
// An array of call sites with all frames.
nlohmann::ordered_json CallSitesJson(const std::vector<CallSite>& sites);
// Writes JSON that may contain names of functions: bytes that are not UTF-8 are replaced.
std::string DumpJson(const nlohmann::ordered_json& json);

}  // namespace cli
