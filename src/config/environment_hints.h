// SPDX-License-Identifier: BSD-3-Clause
// Hints about variables of the environment that do not do what they seem to: those of other
// allocators, names that are nearly ours, and sizes without their unit. The library prints them at
// the user's request (TCMALLOC_HINTS), and the tcmalloc command prints them for other processes.
// Pure functions. Cost: microseconds.
#pragma once

#include <string_view>

#include "base/text.h"

namespace tcmalloc {

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
