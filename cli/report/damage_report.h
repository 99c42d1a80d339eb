// SPDX-License-Identifier: BSD-3-Clause
// Damaged objects and misuses of guarded objects, as text and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "heap/debug_objects.h"
#include "heap/guarded_pool.h"
#include "image/symbolizer.h"

namespace cli {

// The damaged objects of a process on a debug library, as text and as JSON.

// Returns a paragraph for each damaged object, with the stacks.
std::string DamageText(const HeapDamage& found, const NameFrames& names);
// Describes how many objects were checked, and why others were not.
std::string CheckedText(const HeapDamage& found);
// Describes the objects that were not checked and may be damaged; empty if there are none.
// `missing` is the reason why a file lacks memory.
std::string UncheckedText(const HeapDamage& found, const std::string& missing);
// Adds the members of the report to the JSON object.
void AddDamageJson(const HeapDamage& found, nlohmann::ordered_json* json);

// A misuse of a guarded object as text and as JSON. The first line is the one that the library
// itself prints.

// The time of the mistake, by the heap's clock. A core file has no clock, so the time may be an
// earlier one, at which the heap last read the clock.
struct MistakeTime {
  int64_t ms = 0;
  bool exact = false;
};

// "use after free: read at 0x7f12, byte 3 of an object of 100 bytes at 0x7f0f that was freed".
std::string MistakeLine(const GuardMistake& mistake);
// Returns the stacks of the free and the allocation of the object; each line begins with `indent`.
// Empty if there is no object.
std::string MistakeHistory(const GuardMistake& mistake, const MistakeTime& time,
                           const std::string& indent, const NameFrames& names);
// Returns the line, then the stacks of the misuse, of the free and of the allocation.
std::string MistakeText(const GuardMistake& mistake, const MistakeTime& time,
                        const NameFrames& names);
nlohmann::ordered_json MistakeJson(const GuardMistake& mistake, const NameFrames& names);

}  // namespace cli
