// SPDX-License-Identifier: BSD-3-Clause
// Hints about variables of the environment, and the name that a misspelt one was meant to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"

namespace tcmalloc {

// Finds the name that a misspelt name was meant to be. Never allocates. Cost: the product of the
// lengths.

// Longer names are not compared.
inline constexpr size_t kMaxComparedName = 63;
// Names at most this far apart are taken for the same name, misspelt. Two swapped characters count
// as two.
inline constexpr size_t kNearDistance = 2;

// Returns how many characters must be inserted, removed or replaced to turn `a` into `b`;
// kMaxComparedName + 1 if one of them is longer than kMaxComparedName.
size_t EditDistance(std::string_view a, std::string_view b);

// Hints about variables of the environment that do not do what they seem to: those of other
// allocators, names that are nearly ours, and sizes without their unit. The library prints them at
// the user's request (TCMALLOC_HINTS), and the tcmalloc command prints them for other processes.
// Pure functions. Cost: microseconds.

// Writes the beginning of `text`, enough to recognise it. Characters that are not printable ASCII,
// also line ends, become question marks.
void WriteShortened(std::string_view text, TextWriter* out);

// True if `name` is a variable of gperftools that has no effect here (kIgnoredSettings).
bool IsIgnoredSetting(std::string_view name);

// Returns the setting that users often call `name`, with or without the prefix TCMALLOC_; empty if
// none is known.
std::string_view SettingCalled(std::string_view name);

// Writes a hint about the variable without a line end; nothing if it needs none. `is_setting` says
// whether a variable of a name is read by the library.
void WriteHint(std::string_view name, std::string_view value,
               bool (*is_setting)(std::string_view name), TextWriter* out);

}  // namespace tcmalloc
