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
// How good the estimates are: the number of samples, and their interval.
std::string AccuracyText(const std::vector<CallSite>& sites, uint64_t interval);

// The function, and in brackets where it is.
std::string FrameText(const SourceFrame& frame);
// A table of the `most` largest call sites: what each has, its function, and up to `callers` calls
// around it.
std::string CallSitesText(const std::vector<CallSite>& sites, size_t most, size_t callers = 6);
// An array of call sites with all frames.
nlohmann::ordered_json CallSitesJson(const std::vector<CallSite>& sites);
// Text that names of functions may be in: bytes that are no UTF-8 are replaced.
std::string DumpJson(const nlohmann::ordered_json& json);

}  // namespace cli
