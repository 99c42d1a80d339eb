// SPDX-License-Identifier: BSD-3-Clause
// Values of settings for people: sizes with units, and what a limit means for the process.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "heap/statistics.h"

namespace cli {

// Returns the value of the variable for people. `value` has the form of the library's answer to a
// request: a number, "90% (BYTES)", or "-1 (BYTES)".
std::string SettingText(std::string_view variable, const std::string& value);

// Returns the memory limit that `value` means, in bytes; 0 if it means no limit, or if `variable`
// is not a memory limit.
uint64_t LimitBytes(std::string_view variable, const std::string& value);

// Says that a memory limit has no effect or is exceeded already; empty if neither is so.
// `group_bytes`: the limit of the process's control group.
std::string LimitRemark(uint64_t limit_bytes, uint64_t held_bytes, uint64_t group_bytes);

// Returns the settings of the process's environment, then those that were set since; empty if there
// are none.
std::string SettingsText(const Statistics& stats);
// An object: for each setting that was set since the start, its value as in the library's answer.
nlohmann::ordered_json SettingChangesJson(const Statistics& stats);

}  // namespace cli
