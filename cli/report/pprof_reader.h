// SPDX-License-Identifier: BSD-3-Clause
// Reads a profile for pprof: profile.proto, compressed or not. The file is untrusted.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace cli {

// Returns the bytes of each stack, "main;f;g", by the last kind of value whose unit is bytes: the
// memory in use. Functions without a name appear as addresses. Nullopt when it is not such a
// profile.
std::optional<std::map<std::string, double>> ReadPprof(const std::string& contents);

}  // namespace cli
