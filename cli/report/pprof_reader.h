// SPDX-License-Identifier: BSD-3-Clause
// Reads a profile for pprof: profile.proto, compressed or not. The file is untrusted.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace cli {

// The bytes of each stack, "main;f;g", by the last kind of value whose unit is bytes: the memory in
// use. Functions without a name are addresses. Nothing when it is no such profile.
std::optional<std::map<std::string, double>> ReadPprof(const std::string& contents);

}  // namespace cli
