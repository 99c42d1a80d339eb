// SPDX-License-Identifier: BSD-3-Clause
// Settings on the command line.
#pragma once

#include <string>
#include <string_view>

namespace cli {

// Returns the variable and the value of a setting "name=value", as in an environment. Names in
// capitals are variables, "-" stands for "_", and "sampling" for sample_parameter. Throws Failure;
// the message names the `option` that has the setting.
std::string VariableOf(std::string_view option, const std::string& setting);

}  // namespace cli
