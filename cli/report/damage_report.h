// SPDX-License-Identifier: BSD-3-Clause
// The damaged objects of a process on a debug library, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "heap/heap_damage.h"
#include "image/symbolizer.h"

namespace cli {

// Returns a paragraph for each damaged object, with the stacks.
std::string DamageText(const HeapDamage& found, const NameFrames& names);
// Describes how many objects were checked, and why others were not.
std::string CheckedText(const HeapDamage& found);
// Describes the objects that were not checked and may be damaged; empty if there are none.
// `missing` is the reason why a file lacks memory.
std::string UncheckedText(const HeapDamage& found, const std::string& missing);
// Adds the members of the report to the JSON object.
void AddDamageJson(const HeapDamage& found, nlohmann::ordered_json* json);

}  // namespace cli
