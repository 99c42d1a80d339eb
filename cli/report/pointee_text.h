// SPDX-License-Identifier: BSD-3-Clause
// The target of a pointer, in words and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "heap/pointee.h"

namespace cli {

// "in use", "free", "free, in a thread cache", ...
const char* KindName(const Place& place);
// "an object of 64 bytes at 0x7f..., in use"
std::string ObjectText(const Place& place);
// Completes "the address is ...".
std::string PointeeText(const Pointee& pointee);
nlohmann::ordered_json PointeeJson(const Pointee& pointee);

}  // namespace cli
