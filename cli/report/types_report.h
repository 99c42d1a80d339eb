// SPDX-License-Identifier: BSD-3-Clause
// The types of a heap's objects as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heap/types.h"
#include "image/process.h"
#include "report/profile_report.h"

namespace cli {

// Returns the `most` largest rows of each part. `sites` are those of types.sites.
std::string TypesText(const ObjectTypes& types, const std::vector<CallSite>& sites,
                      const ProcessInfo& info, size_t most);
nlohmann::ordered_json TypesJson(const ObjectTypes& types, const std::vector<CallSite>& sites,
                                 const ProcessInfo& info, size_t most);

}  // namespace cli
