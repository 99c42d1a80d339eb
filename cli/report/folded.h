// SPDX-License-Identifier: BSD-3-Clause
// Folded stacks, which flamegraph.pl and similar tools read.
#pragma once

#include <string>
#include <vector>

#include "report/call_sites.h"

namespace cli {

// Returns a line for each call site: its functions, outermost first, separated by semicolons, and
// its bytes.
std::string FoldedOf(const std::vector<CallSite>& sites);

}  // namespace cli
