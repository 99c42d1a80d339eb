// SPDX-License-Identifier: BSD-3-Clause
// The environment variables that the library reads.
#pragma once

#include <string>
#include <string_view>

namespace cli {

bool IsSetting(std::string_view variable);
// The setting that a misspelt variable may mean; empty if none is near.
std::string NearestSetting(std::string_view variable);

}  // namespace cli
