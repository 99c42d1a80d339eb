// SPDX-License-Identifier: BSD-3-Clause
// A flame graph as SVG: each call stack from the top down, as wide as its bytes. A browser shows
// the full names and figures when the pointer is on a box.
#pragma once

#include <string>
#include <vector>

#include "report/profile_report.h"

namespace cli {

std::string FlameGraphOf(const std::vector<CallSite>& sites, const std::string& title);

}  // namespace cli
